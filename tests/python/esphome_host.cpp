// SPDX-License-Identifier: Apache-2.0

/// @file
/// @brief Prints the words that examples/esphome detects in the samples of the standard input, with
/// ESPHome's own classes.

#include <cstdio>

#include "vmcu_wake_word.h"

using namespace esphome;

/// A microphone of 32 bits, as those of I2S are.
class FileMicrophone : public microphone::Microphone {
public:
  FileMicrophone() { this->audio_stream_info_ = audio::AudioStreamInfo(32, 1, 16000); }
  void start() override { this->state_ = microphone::STATE_RUNNING; }
  void stop() override { this->state_ = microphone::STATE_STOPPED; }
  bool read() {
    int16_t samples[512];
    const size_t count = fread(samples, sizeof(samples[0]), 512, stdin);
    std::vector<uint8_t> data;
    for (size_t i = 0; i < count; i++) {
      data.insert(data.end(), {0, 0, (uint8_t)samples[i], (uint8_t)(samples[i] >> 8)});
    }
    this->data_callbacks_.call(data);
    return count > 0;
  }
};

class Print : public Action<std::string> {
  void play(const std::string &word) override { puts(word.c_str()); }
};

int main() {
  FileMicrophone microphone;
  microphone::MicrophoneSource source(&microphone, 16, 1, false);
  vmcu_wake_word::VmcuWakeWord words(&source);
  Automation<std::string> automation(words.get_detected_trigger());
  Print print;
  source.add_channel(0);
  automation.add_actions({&print});
  words.setup();
  words.start();
  while (microphone.read()) {
    words.loop();
  }
}
