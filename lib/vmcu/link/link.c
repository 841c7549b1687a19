/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>
#include <string.h>

#include <vmcu/link.h>

#define DATA 0xa5U
#define ACK  0x5aU

/* Acknowledgements of earlier transmissions that may come in front of a frame. */
#define STALE 16U

/* Bytes that are read away after a damaged frame, of a line that is never silent. */
#define MOST_NOISE (UINT32_C(1) << 20)

/* A header has no padding, and cores are little-endian: these are its bytes on the line. */
struct header {
	uint8_t kind;
	uint8_t session;
	uint16_t sequence;
	uint16_t inference;
	uint16_t part;
	uint32_t bytes;
	uint32_t crc;
};

/* Bytes in front of the CRC. */
#define FIELDS offsetof(struct header, crc)

static uint32_t crc_of(uint32_t crc, const void *data, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		crc ^= ((const uint8_t *)data)[i];
		for (unsigned int bit = 0; bit < 8U; bit++) {
			crc = (crc >> 1) ^ (0xedb88320U & (0U - (crc & 1U)));
		}
	}
	return crc;
}

/* The CRC of a header and its payload, if it has one. */
static uint32_t frame_crc(const struct header *header, const void *data)
{
	return ~crc_of(crc_of(UINT32_MAX, header, FIELDS), data, header->bytes);
}

static struct header ack_of(const struct header *data)
{
	struct header ack = *data;

	ack.kind = ACK;
	ack.bytes = 0U;
	ack.crc = frame_crc(&ack, &ack);
	return ack;
}

static int acknowledge(const struct vmcu_link *link, const struct header *data)
{
	const struct header ack = ack_of(data);

	return link->port->send(link->port->user, &ack, sizeof(ack));
}

/* Reads bytes; negative errno, 0 or 1: all of them came. */
static int read_all(const struct vmcu_link *link, void *data, size_t bytes, uint32_t timeout_ms)
{
	const int got = link->port->receive(link->port->user, data, bytes, timeout_ms);

	if (got < 0) {
		return got;
	}
	return ((size_t)got == bytes) ? 1 : 0;
}

/* Reads until the line is silent. Returns -EBADMSG or the error of the port. */
static int drain(const struct vmcu_link *link)
{
	uint8_t byte;
	int got = 1;

	for (uint32_t i = 0; i < MOST_NOISE && got > 0; i++) {
		got = read_all(link, &byte, 1U, link->gap_ms);
	}
	return (got < 0) ? got : -EBADMSG;
}

/* Waits for a header whose first bytes are the wanted ones; its CRC is stored there. 1: it came,
 * 0: none in time, -EBADMSG: another or a damaged one, or an error of the port. Acknowledges data
 * that has been received before: its acknowledgement was lost.
 */
static int await(const struct vmcu_link *link, struct header *wanted, size_t same)
{
	struct header header;
	int err;

	for (unsigned int i = 0; i < STALE; i++) {
		err = read_all(link, &header, 1U, link->timeout_ms);
		if (err <= 0) {
			return err;
		}
		err = read_all(link, (uint8_t *)&header + 1, sizeof(header) - 1U, link->gap_ms);
		if (err < 0) {
			return err;
		}
		if (err > 0 && memcmp(&header, wanted, same) == 0) {
			wanted->crc = header.crc;
			return 1;
		}
		if (err > 0 && header.kind == ACK && header.crc == ack_of(&header).crc) {
			continue;
		}
		const bool repeated = err > 0 && header.kind == DATA &&
				      header.session == link->session &&
				      header.sequence == link->received;

		err = drain(link);
		if (err != -EBADMSG || !repeated) {
			return err;
		}
		err = acknowledge(link, &header);
		if (err != 0) {
			return err;
		}
	}
	return 0;
}

int vmcu_link_send(struct vmcu_link *link, uint16_t inference, uint16_t part, const void *data,
		   uint32_t bytes)
{
	const struct vmcu_link_port *port = link->port;
	struct header header = {DATA, link->session, 0U, inference, part, bytes, 0U};
	struct header ack;
	int err = 0;

	link->sent++;
	header.sequence = link->sent;
	ack = ack_of(&header);
	header.crc = frame_crc(&header, data);
	for (uint16_t i = 0; i < link->tries && (err == 0 || err == -EBADMSG); i++) {
		err = port->send(port->user, &header, sizeof(header));
		if (err == 0) {
			err = port->send(port->user, data, bytes);
		}
		if (err == 0) {
			err = await(link, &ack, sizeof(ack));
		}
	}
	return (err > 0) ? 0 : (err == 0 || err == -EBADMSG) ? -ETIMEDOUT : err;
}

int vmcu_link_receive(struct vmcu_link *link, uint16_t inference, uint16_t part, void *data,
		      uint32_t bytes)
{
	const uint16_t sequence = (uint16_t)(link->received + 1U);
	struct header wanted = {DATA, link->session, sequence, inference, part, bytes, 0U};
	int worst = -ETIMEDOUT;
	int err = 0;

	for (uint16_t i = 0; i < link->tries && (err == 0 || err == -EBADMSG); i++) {
		err = await(link, &wanted, FIELDS);
		if (err > 0) {
			err = read_all(link, data, bytes, link->gap_ms);
			if (err > 0 && wanted.crc == frame_crc(&wanted, data)) {
				link->received = sequence;
				return acknowledge(link, &wanted);
			}
			err = (err < 0) ? err : drain(link);
		}
		worst = (err == -EBADMSG) ? err : worst;
	}
	return (err == 0) ? worst : err;
}
