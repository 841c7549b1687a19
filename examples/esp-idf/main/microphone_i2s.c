/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* A microphone at I2S with slots of 32 bits, such as INMP441: the left one. */

#include "driver/i2s_std.h"
#include "microphone.h"

/* The pins of your board. */
#define PIN_BCLK 5
#define PIN_WS   6
#define PIN_DIN  4

#define TIMEOUT_MS 1000

static i2s_chan_handle_t channel;

int microphone_start(void)
{
	i2s_chan_config_t buffers = I2S_CHANNEL_DEFAULT_CONFIG(I2S_NUM_AUTO, I2S_ROLE_MASTER);
	i2s_std_config_t format = {
		.clk_cfg = I2S_STD_CLK_DEFAULT_CONFIG(MICROPHONE_RATE),
		.slot_cfg = I2S_STD_PHILIPS_SLOT_DEFAULT_CONFIG(I2S_DATA_BIT_WIDTH_16BIT,
								I2S_SLOT_MODE_MONO),
		/* Master clock and output are not used. */
		.gpio_cfg = {I2S_GPIO_UNUSED, PIN_BCLK, PIN_WS, I2S_GPIO_UNUSED, PIN_DIN},
	};

	buffers.dma_desc_num = MICROPHONE_BLOCKS;
	buffers.dma_frame_num = MICROPHONE_BLOCK;
	format.slot_cfg.slot_bit_width = I2S_SLOT_BIT_WIDTH_32BIT;
	format.slot_cfg.ws_width = I2S_SLOT_BIT_WIDTH_32BIT;
	format.slot_cfg.slot_mask = I2S_STD_SLOT_LEFT;
	if (i2s_new_channel(&buffers, NULL, &channel) != ESP_OK ||
	    i2s_channel_init_std_mode(channel, &format) != ESP_OK) {
		return -1;
	}
	return (i2s_channel_enable(channel) == ESP_OK) ? 0 : -1;
}

int microphone_read(int16_t *samples)
{
	const size_t size = MICROPHONE_BLOCK * sizeof(*samples);

	return (i2s_channel_read(channel, samples, size, NULL, TIMEOUT_MS) == ESP_OK) ? 0 : -1;
}
