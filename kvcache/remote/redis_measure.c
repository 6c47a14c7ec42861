#include "kvcache/remote/redis_measure.h"

#include <stdio.h>
#include <stdlib.h>

/* the best of this many rounds is the result: during a single round the connection or the CPU core
 * may be busy */
#define ROUNDS 4u
/* a round of ECHO that takes longer than this is treated as two rounds */
#define SLOW_NS    ((uint64_t)20000000)
#define TIMEOUT_NS ((uint64_t)1000000000)

void mr_redis_measure_end(struct mr_redis_measure *measure)
{
    free(measure->bytes);
    measure->bytes = NULL;
}

static void send_round(struct mr_redis_measure *measure, const struct mr_redis_port *port,
                       uint64_t now_ns)
{
    struct iovec bytes = {.iov_base = measure->bytes, .iov_len = MR_REDIS_MEASURE_BYTES};
    int length = snprintf(measure->text, sizeof measure->text, "*2\r\n$4\r\nECHO\r\n$%zu\r\n",
                          MR_REDIS_MEASURE_BYTES);
    measure->command =
        (struct mr_redis_command){.out = {{.iov_base = measure->text, .iov_len = (size_t)length},
                                          bytes,
                                          {.iov_base = measure->text + length - 2, .iov_len = 2}},
                                  .out_count = 3,
                                  .bulk = true,
                                  .into = {bytes},
                                  .slot = MR_REDIS_SLOTS,
                                  .deadline_ns = now_ns + TIMEOUT_NS,
                                  .owner = measure};
    measure->begun_ns = now_ns;
    measure->active = port->send(port->context, &measure->command);
}

void mr_redis_measure_begin(struct mr_redis_measure *measure, const struct mr_redis_port *port,
                            uint64_t now_ns)
{
    if (measure->active || now_ns < measure->next_ns) return;
    measure->next_ns = now_ns + MR_REDIS_MEASURE_GAP_NS;
    if (!measure->bytes) measure->bytes = calloc(1, MR_REDIS_MEASURE_BYTES);
    if (!measure->bytes) return;
    measure->rounds = 0;
    measure->bytes_per_second = 0;
    send_round(measure, port, now_ns);
}

bool mr_redis_measure_finish(struct mr_redis_measure *measure, const struct mr_redis_port *port,
                             uint64_t now_ns)
{
    uint64_t took_ns = now_ns - measure->begun_ns + 1;
    bool done = measure->command.outcome == MR_REDIS_DONE;
    bool timeout = measure->command.outcome == MR_REDIS_TIMEOUT;
    measure->active = false;
    if (done || timeout) {
        /* The factor 2: the bytes went to the Redis server and came back, one direction after the
         * other. */
        double rate = 2e9 * (double)(timeout ? 1 : MR_REDIS_MEASURE_BYTES) / (double)took_ns;
        if (rate > measure->bytes_per_second) measure->bytes_per_second = rate;
        measure->rounds += took_ns < SLOW_NS ? 1 : 2;
    }
    if (done && measure->rounds < ROUNDS) send_round(measure, port, now_ns);
    return !measure->active;
}
