/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <vmcu/link.h>

#define DATA 0xa5U
#define ACK  0x5aU

/* Bytes in front of the CRC. */
#define FIELDS 12U

/* Acknowledgements of earlier transmissions that may come in front of a frame. */
#define STALE 16U

/* Bytes that are read away after a damaged frame, of a line that is never silent. */
#define MOST_NOISE (UINT32_C(1) << 20)

static void put16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)value;
	at[1] = (uint8_t)(value >> 8);
}

static void put32(uint8_t *at, uint32_t value)
{
	put16(at, value);
	put16(at + 2, value >> 16);
}

static uint32_t crc_of(uint32_t crc, const uint8_t *data, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		crc ^= data[i];
		for (unsigned int bit = 0; bit < 8U; bit++) {
			crc = (crc >> 1) ^ (UINT32_C(0xedb88320) & (0U - (crc & 1U)));
		}
	}
	return crc;
}

/* Writes a header, with the CRC of its fields and a payload; of none if data is NULL. */
static void write_header(uint8_t *header, uint8_t kind, const struct vmcu_link *link,
			 uint16_t sequence, uint16_t inference, uint16_t part, const void *data,
			 uint32_t bytes)
{
	uint32_t crc;

	header[0] = kind;
	header[1] = link->session;
	put16(header + 2, sequence);
	put16(header + 4, inference);
	put16(header + 6, part);
	put32(header + 8, bytes);
	crc = crc_of(UINT32_MAX, header, FIELDS);
	if (data != NULL) {
		crc = crc_of(crc, data, bytes);
	}
	put32(header + FIELDS, ~crc);
}

static int acknowledge(const struct vmcu_link *link, const uint8_t *header)
{
	uint8_t ack[VMCU_LINK_HEADER];

	(void)memcpy(ack, header, FIELDS);
	ack[0] = ACK;
	put32(ack + 8, 0U);
	put32(ack + FIELDS, ~crc_of(UINT32_MAX, ack, FIELDS));
	return link->port->send(link->port->user, ack, sizeof(ack));
}

/* Reads bytes; negative errno, 0 or 1: all of them came. */
static int read_all(const struct vmcu_link *link, void *data, size_t bytes, uint32_t timeout_ms)
{
	const int got = link->port->receive(link->port->user, data, bytes, timeout_ms);

	return (got < 0) ? got : (int)((size_t)got == bytes);
}

/* Reads until the line is silent. */
static int drain(const struct vmcu_link *link)
{
	uint8_t byte;
	int got = 1;

	for (uint32_t i = 0; i < MOST_NOISE && got > 0; i++) {
		got = read_all(link, &byte, 1U, link->gap_ms);
	}
	return (got < 0) ? got : 0;
}

static bool is_ack(const uint8_t *header)
{
	uint8_t crc[4];

	put32(crc, ~crc_of(UINT32_MAX, header, FIELDS));
	return header[0] == ACK && memcmp(header + FIELDS, crc, sizeof(crc)) == 0;
}

/* True for data that has been received: its acknowledgement was lost. */
static bool is_repeated(const struct vmcu_link *link, const uint8_t *header)
{
	const uint16_t sequence = (uint16_t)(header[2] | (header[3] << 8));

	return header[0] == DATA && header[1] == link->session && sequence == link->received;
}

/* Waits for a header whose first bytes are the wanted ones; the others are stored there. 1: it
 * came, 0: none in time, or another frame, -EBADMSG: a damaged one, or an error of the port.
 */
static int await(const struct vmcu_link *link, uint8_t *wanted, size_t same)
{
	uint8_t header[VMCU_LINK_HEADER];
	int err;

	for (unsigned int i = 0; i < STALE; i++) {
		err = read_all(link, header, 1U, link->timeout_ms);
		if (err <= 0) {
			return err;
		}
		err = read_all(link, header + 1, sizeof(header) - 1U, link->gap_ms);
		if (err < 0) {
			return err;
		}
		if (err > 0 && memcmp(header, wanted, same) == 0) {
			(void)memcpy(wanted, header, sizeof(header));
			return 1;
		}
		if (err > 0 && is_ack(header)) {
			continue;
		}
		const bool repeated = err > 0 && is_repeated(link, header);

		err = drain(link);
		if (err == 0 && repeated) {
			err = acknowledge(link, header);
			if (err == 0) {
				continue;
			}
		}
		return (err == 0) ? -EBADMSG : err;
	}
	return 0;
}

int vmcu_link_send(struct vmcu_link *link, uint16_t inference, uint16_t part, const void *data,
		   uint32_t bytes)
{
	const struct vmcu_link_port *port = link->port;
	uint8_t header[VMCU_LINK_HEADER];
	uint8_t ack[VMCU_LINK_HEADER];
	int err = 0;

	link->sent++;
	write_header(header, DATA, link, link->sent, inference, part, data, bytes);
	write_header(ack, ACK, link, link->sent, inference, part, NULL, 0U);
	for (uint16_t i = 0; i < link->tries; i++) {
		err = port->send(port->user, header, sizeof(header));
		if (err == 0) {
			err = port->send(port->user, data, bytes);
		}
		if (err == 0) {
			err = await(link, ack, sizeof(ack));
		}
		if (err > 0) {
			return 0;
		}
		if (err < 0 && err != -EBADMSG) {
			return err;
		}
	}
	return -ETIMEDOUT;
}

int vmcu_link_receive(struct vmcu_link *link, uint16_t inference, uint16_t part, void *data,
		      uint32_t bytes)
{
	uint8_t wanted[VMCU_LINK_HEADER];
	uint8_t crc[4];
	bool damaged = false;

	write_header(wanted, DATA, link, (uint16_t)(link->received + 1U), inference, part, NULL,
		     bytes);
	for (uint16_t i = 0; i < link->tries; i++) {
		int err = await(link, wanted, FIELDS);

		if (err > 0) {
			err = read_all(link, data, bytes, link->gap_ms);
			put32(crc, ~crc_of(crc_of(UINT32_MAX, wanted, FIELDS), data, bytes));
			if (err > 0 && memcmp(wanted + FIELDS, crc, sizeof(crc)) == 0) {
				link->received++;
				return acknowledge(link, wanted);
			}
			if (err >= 0) {
				err = drain(link);
				damaged = true;
			}
		}
		damaged = damaged || err == -EBADMSG;
		if (err < 0 && err != -EBADMSG) {
			return err;
		}
	}
	return damaged ? -EBADMSG : -ETIMEDOUT;
}
