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
	80, 79, 140, 28, 2, 98, 34, 89, 80, 87, 8, 134, 12, 2, 122, 84, 65, 17, 21, 71, 134, 148,
	2, 80, 150, 82, 2, 8, 63, 140, 83, 48, 72, 2, 9, 77, 137, 121, 134, 21, 145, 4, 143, 2,
	80, 150, 107, 2, 134, 42, 2, 3,
};
/* clang-format on */

#endif /* STORYTELLER_WORDS_H_ */
