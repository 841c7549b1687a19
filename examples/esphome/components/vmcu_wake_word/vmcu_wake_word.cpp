// SPDX-License-Identifier: Apache-2.0

#include "vmcu_wake_word.h"

#include "esphome/core/log.h"

namespace esphome::vmcu_wake_word
{

static void note(void *detected, unsigned int word, uint8_t mean)
{
	*static_cast<std::atomic<uint32_t> *>(detected) |= UINT32_C(1) << word;
}

void VmcuWakeWord::setup()
{
	this->error_ = wake_words_init();
	this->source_->add_data_callback([this](const std::vector<uint8_t> &data) {
		const auto *samples = reinterpret_cast<const int16_t *>(data.data());
		const int err = wake_words_push(samples, data.size() / sizeof(*samples), note,
						&this->detected_);
		if (err != 0) {
			this->error_ = err;
		}
	});
}

void VmcuWakeWord::start()
{
	for (unsigned int word = 0; word < WAKE_WORDS_COUNT; word++) {
		wake_words_start(word);
	}
	this->source_->start();
}

void VmcuWakeWord::stop()
{
	this->source_->stop();
}

void VmcuWakeWord::loop()
{
	const uint32_t detected = this->detected_.exchange(0);
	for (unsigned int word = 0; word < WAKE_WORDS_COUNT; word++) {
		if ((detected >> word & 1U) != 0) {
			this->detected_trigger_.trigger(wake_words[word].name);
		}
	}
	if (const int err = this->error_.exchange(0); err != 0) {
		ESP_LOGE("vmcu_wake_word", "Wake words failed: %d", err);
		this->stop();
	}
}

} // namespace esphome::vmcu_wake_word
