/* Print blocks of a ring as they come:   print_ring tandem.drive.daq.1000 [HOW_MANY]
 *
 *     cc -O2 -I "$(python -c 'import sync; print(sync.__path__[0])')/include" print_ring.c -o print_ring
 */
#include <inttypes.h>
#include <time.h>

#include "tandem_ring.h"

#define MOST 512

int main(int count, char **words) {
    tandem_ring ring;
    static tandem_channel channels[MOST];
    if (count < 2 || tandem_open(&ring, words[1])) {
        fprintf(stderr, "no ring %s in /dev/shm\n", count < 2 ? "was named" : words[1]);
        return 1;
    }
    int n = tandem_channels(&ring, channels, MOST);
    if (n < 0 || n > MOST) return 1;
    printf("seq,t_ns");
    for (int k = 0; k < n; k++) printf(",%s", channels[k].name);
    printf("\n");
    int64_t *block = (int64_t *)malloc(8 * (size_t)ring.words[TANDEM_BLOCK_WORDS]);
    int64_t wanted = count > 2 ? atoll(words[2]) : INT64_MAX, position = 0, lost = 0, read = 0;
    while (read + lost < wanted) {
        if (!tandem_next(&ring, &position, &lost, block)) {
            if (tandem_word(&ring, TANDEM_STATE) != TANDEM_LIVE) break; /* its writer has closed it */
            struct timespec nap = {0, 1000000};
            nanosleep(&nap, NULL);
            continue;
        }
        read++;
        printf("%" PRIu64 ",%" PRId64, (uint64_t)block[TANDEM_SEQ], block[TANDEM_T_NS]);
        for (int k = 0; k < n; k++) {
            if (channels[k].kind == 'f') printf(",%.17g", tandem_number(block, &channels[k]));
            else if (channels[k].kind == 'u') printf(",%" PRIu64, (uint64_t)tandem_integer(block, &channels[k]));
            else printf(",%" PRId64, tandem_integer(block, &channels[k]));
        }
        printf("\n");
    }
    fprintf(stderr, "%" PRId64 " blocks read, %" PRId64 " lost\n", read, lost);
    free(block);
    tandem_close(&ring);
    return 0;
}
