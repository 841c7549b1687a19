/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Written by train.py: the vocabulary, a prompt, and the story that ONNX Runtime adds to it.
 */

#ifndef STORYTELLER_WORDS_H_
#define STORYTELLER_WORDS_H_

#include <stdint.h>

#define WORDS 158
#define END   3

/* clang-format off */
static const char *const words[WORDS] = {
	"\"", ",", ".", "<end>", "a", "all", "and", "angry", "anna", "at", "ball", "barn",
	"bear", "bell", "ben", "big", "bird", "black", "blue", "boat", "book", "box", "brave",
	"brown", "but", "cat", "cave", "clever", "climb", "coin", "cold", "cow", "cry", "dance",
	"dark", "day", "do", "dog", "draw", "drum", "duck", "emma", "end", "evening", "excited",
	"field", "finn", "flower", "for", "forest", "found", "fox", "frog", "funny", "garden",
	"gave", "gentle", "glad", "golden", "green", "happy", "hat", "he", "helped", "hen",
	"her", "hide", "his", "horse", "hot", "house", "in", "it", "jump", "kind", "kite",
	"lamp", "last", "leo", "liked", "lily", "little", "lonely", "look", "lost", "max",
	"meadow", "met", "mia", "morning", "mountain", "mouse", "named", "near", "night", "not",
	"old", "once", "one", "orange", "owl", "paint", "park", "pig", "pink", "play", "played",
	"proud", "purple", "quiet", "rabbit", "rainy", "read", "red", "ring", "river", "rosie",
	"run", "sad", "said", "sam", "saw", "she", "shell", "showed", "shy", "silver", "sing",
	"sleep", "small", "smiled", "stone", "sunny", "swim", "the", "then", "there", "they",
	"time", "tired", "to", "tom", "too", "tree", "turtle", "under", "upon", "valley",
	"village", "wanted", "was", "white", "windy", "with", "wolf", "yellow", "young", "zoe",
};

static const uint16_t prompt[] = {
	97, 146, 4, 138, 136, 150, 4, 22, 51, 92, 80, 2,
};

static const uint16_t onnxruntime_story[] = {
	80, 79, 140, 127, 2, 98, 34, 35, 80, 87, 141, 134, 16, 2, 122, 50, 4, 59, 39, 93, 134,
	11, 2, 80, 124, 134, 39, 140, 141, 2, 141, 150, 60, 142, 2, 137, 106, 153, 134, 39, 5,
	89, 2, 134, 42, 2, 3,
};
/* clang-format on */

#endif /* STORYTELLER_WORDS_H_ */
