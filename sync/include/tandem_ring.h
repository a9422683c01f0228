/* Read the rings of tandem from C or C++ (gcc, clang; Linux, 64 bit, little-endian). Nothing to link.
 *
 * A ring is a file /dev/shm/tandem.RUN.RING.UID: RUN is `name` of the configuration, RING one of docs/streams.md, UID
 * the number of the user. One process writes it, any number may read it; a reader maps it read-only, takes no lock and
 * waits for nobody. What the words mean, and in which order they are read, stands at the top of sync/ring/ring.py.
 *
 * Instants are nanoseconds of CLOCK_MONOTONIC. A channel's own sample instant is t_ns + skew_ns.
 */
#ifndef TANDEM_RING_H
#define TANDEM_RING_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { /* words of the head of a ring */
    TANDEM_MAGIC = 0, TANDEM_VERSION = 1, TANDEM_LAYOUT = 2, TANDEM_CAPACITY = 3, TANDEM_BLOCK_WORDS = 4,
    TANDEM_SLOT_WORDS = 5, TANDEM_FIRST_SLOT = 6, TANDEM_PID = 7, TANDEM_EPOCH = 8, TANDEM_STATE = 9,
    TANDEM_HEARTBEAT = 10, TANDEM_BOUND = 11, TANDEM_HEAD = 16, TANDEM_TEXT_BYTES = 24, TANDEM_TEXT = 25
};
enum { /* words of a block; its channels stand from TANDEM_PAYLOAD on */
    TANDEM_SEQ = 0, TANDEM_BLOCK_EPOCH = 1, TANDEM_T_NS = 2, TANDEM_PUSHED_NS = 3, TANDEM_SENT_NS = 4,
    TANDEM_RECEIVED_NS = 5, TANDEM_PAYLOAD = 6
};
enum { TANDEM_LIVE = 1, TANDEM_CLOSED = 2, TANDEM_REPLACED = 3 }; /* states */
enum { TANDEM_EMPTY = -1, TANDEM_LAPPED = -2 };                   /* instead of a position */

typedef struct {
    const int64_t *words;
    size_t bytes;
} tandem_ring;

typedef struct {
    char name[64];
    char unit[32];
    char kind; /* i signed, u unsigned, f floating point */
    int size;  /* bytes */
    int offset; /* bytes, from the begin of the payload */
    int64_t skew_ns;
} tandem_channel;

static inline int64_t tandem_word(const tandem_ring *ring, int word) {
    return __atomic_load_n(&ring->words[word], __ATOMIC_ACQUIRE);
}

/* 0, or -1 where there is no such ring, or it is none. */
static inline int tandem_open(tandem_ring *ring, const char *name) {
    char path[256];
    struct stat status;
    int64_t magic;
    snprintf(path, sizeof path, "/dev/shm/%s", name);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return -1;
    if (fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_uid != geteuid() || status.st_size < 512 * 8) {
        close(fd);
        return -1;
    }
    ring->bytes = (size_t)status.st_size;
    void *mapped = mmap(NULL, ring->bytes, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped == MAP_FAILED) return -1;
    ring->words = (const int64_t *)mapped;
    memcpy(&magic, "tandemRB", 8);
    int64_t capacity = ring->words[TANDEM_CAPACITY], block = ring->words[TANDEM_BLOCK_WORDS];
    int64_t slot = ring->words[TANDEM_SLOT_WORDS], first = ring->words[TANDEM_FIRST_SLOT];
    int64_t most = (int64_t)(ring->bytes / 8), text = ring->words[TANDEM_TEXT_BYTES];
    int sound = tandem_word(ring, TANDEM_MAGIC) == magic && ring->words[TANDEM_VERSION] == 1 && capacity > 1 &&
                !(capacity & (capacity - 1)) && block >= TANDEM_PAYLOAD && block < slot && slot <= most && first > 0 &&
                first <= most && text > 0 && text <= 8 * (first - TANDEM_TEXT) && capacity <= (most - first) / slot;
    if (!sound) {
        munmap(mapped, ring->bytes);
        return -1;
    }
    return 0;
}

static inline void tandem_close(tandem_ring *ring) { munmap((void *)ring->words, ring->bytes); }

/* Copy block n; 0 where the writer has been there since. */
static inline int tandem_read(const tandem_ring *ring, int64_t n, int64_t *block) {
    const int64_t *slot = ring->words + ring->words[TANDEM_FIRST_SLOT] +
                          (n & (ring->words[TANDEM_CAPACITY] - 1)) * ring->words[TANDEM_SLOT_WORDS];
    if (__atomic_load_n(slot, __ATOMIC_ACQUIRE) != 2 * n + 2) return 0;
    for (int64_t i = 0; i < ring->words[TANDEM_BLOCK_WORDS]; i++)
        block[i] = __atomic_load_n(slot + 1 + i, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(slot, __ATOMIC_RELAXED) == 2 * n + 2;
}

/* Copy the newest block; its position, TANDEM_EMPTY, or TANDEM_LAPPED where the writer kept lapping us. */
static inline int64_t tandem_newest(const tandem_ring *ring, int64_t *block) {
    for (int k = 0; k < 1000; k++) {
        int64_t head = tandem_word(ring, TANDEM_HEAD);
        if (head == 0) return TANDEM_EMPTY;
        if (tandem_read(ring, head - 1, block)) return head - 1;
    }
    return TANDEM_LAPPED;
}

/* Copy the next block from *position on, and move it; 1, or 0 where there is none yet. Blocks that were overwritten
 * before we came are counted in *lost. */
static inline int tandem_next(const tandem_ring *ring, int64_t *position, int64_t *lost, int64_t *block) {
    int64_t head = tandem_word(ring, TANDEM_HEAD), behind = head - ring->words[TANDEM_CAPACITY] - *position;
    if (behind > 0) {
        *lost += behind;
        *position += behind;
    }
    while (*position < head) {
        if (tandem_read(ring, (*position)++, block)) return 1;
        ++*lost;
    }
    return 0;
}

/* A text of JSON, without its escapes; where it ends, or NULL. */
static inline const char *tandem_text(const char *at, const char *end, char *out, size_t room) {
    size_t n = 0;
    if (at >= end || *at++ != '"') return NULL;
    while (at < end && *at != '"') {
        if (*at == '\\' && at + 1 < end) at++;
        if (n + 1 < room) out[n++] = *at;
        at++;
    }
    out[n] = 0;
    return at < end ? at + 1 : NULL;
}

/* The channels of a ring, in order, at most `most` of them; how many there are, or -1 where they cannot be read. The
 * layout stands in the ring as JSON: [["name","i2","unit",skew_ns],...]. */
static inline int tandem_channels(const tandem_ring *ring, tandem_channel *channels, int most) {
    const char *at = (const char *)(ring->words + TANDEM_TEXT), *end = at + ring->words[TANDEM_TEXT_BYTES];
    int count = 0, offset = 0;
    if (at >= end || *at++ != '[') return -1;
    while (at < end && *at == '[') {
        tandem_channel found;
        char kind[8], number[24];
        size_t digits = 0;
        if (!(at = tandem_text(at + 1, end, found.name, sizeof found.name)) || at >= end || *at++ != ',') return -1;
        if (!(at = tandem_text(at, end, kind, sizeof kind)) || at >= end || *at++ != ',') return -1;
        if (!(at = tandem_text(at, end, found.unit, sizeof found.unit)) || at >= end || *at++ != ',') return -1;
        while (at < end && *at != ']' && digits + 1 < sizeof number) number[digits++] = *at++;
        number[digits] = 0;
        if (at >= end || *at++ != ']' || !strchr("iuf", kind[0]) || !strchr("248", kind[1])) return -1;
        found.kind = kind[0];
        found.size = kind[1] - '0';
        found.skew_ns = strtoll(number, NULL, 10);
        found.offset = offset = (offset + found.size - 1) / found.size * found.size;
        offset += found.size;
        if (offset > 8 * (ring->words[TANDEM_BLOCK_WORDS] - TANDEM_PAYLOAD)) return -1;
        if (count < most) channels[count] = found;
        count++;
        if (at < end && *at == ',') at++;
    }
    return count;
}

/* Where a channel's bytes are in a block. */
static inline const void *tandem_bytes(const int64_t *block, const tandem_channel *channel) {
    return (const char *)(block + TANDEM_PAYLOAD) + channel->offset;
}

/* An integer channel; u8 above INT64_MAX wraps: cast the result to uint64_t. */
static inline int64_t tandem_integer(const int64_t *block, const tandem_channel *channel) {
    int64_t wide = 0;
    memcpy(&wide, tandem_bytes(block, channel), (size_t)channel->size); /* little-endian */
    int shift = 64 - 8 * channel->size;
    return channel->kind == 'i' ? (int64_t)((uint64_t)wide << shift) >> shift : wide;
}

/* Any channel as a number; integers beyond 2^53 are rounded. */
static inline double tandem_number(const int64_t *block, const tandem_channel *channel) {
    float single;
    double full;
    if (channel->kind != 'f')
        return channel->kind == 'i' ? (double)tandem_integer(block, channel)
                                    : (double)(uint64_t)tandem_integer(block, channel);
    if (channel->size == 4) {
        memcpy(&single, tandem_bytes(block, channel), 4);
        return single;
    }
    memcpy(&full, tandem_bytes(block, channel), 8);
    return full;
}

#ifdef __cplusplus
}
#endif
#endif
