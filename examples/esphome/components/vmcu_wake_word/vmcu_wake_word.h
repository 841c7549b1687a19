// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <string>

#include "esphome/components/microphone/microphone_source.h"
#include "esphome/core/automation.h"
#include "esphome/core/component.h"
#include "wake_words.h"

namespace esphome::vmcu_wake_word
{

/// Runs wake words on the microphone's samples, in the microphone's task.
class VmcuWakeWord : public Component
{
      public:
	explicit VmcuWakeWord(microphone::MicrophoneSource *source) : source_(source)
	{
	}
	Trigger<std::string> *get_detected_trigger()
	{
		return &this->detected_trigger_;
	}
	void setup() override;
	void loop() override;
	/// Starts the microphone and all words.
	void start();
	void stop();

      protected:
	microphone::MicrophoneSource *source_;
	Trigger<std::string> detected_trigger_;
	/// From the microphone's task: a bit for each detected word, and the last error.
	std::atomic<uint32_t> detected_{0};
	std::atomic<int> error_{0};
};

} // namespace esphome::vmcu_wake_word
