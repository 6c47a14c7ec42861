/* bench_digest MODEL: hashes the weights of a model with 1, 2 ... threads and prints GB/s as JSON.
 * The first pass reads the file. The best of the later passes counts. */
#include "ops/cpu_kernels/parallel.h"
#include "ops/files/model_files.h"
#include "ops/weights/weights_digest.h"
#include "worker/base/clock.h"

#include <stdio.h>

#define PASSES 8

/* Returns the seconds of the best pass. */
static double best_seconds(const struct mr_model_source *source)
{
    double best = 1e9;
    for (int i = 0; i < PASSES; i++) {
        struct mr_weights_digest *digest = NULL;
        unsigned char content[MR_DIGEST_BYTES];
        uint64_t start_ns = mr_clock_ns();
        if (mr_weights_digest_create(&digest, source->tensors, NULL) != MR_OK) return best;
        (void)mr_weights_digest_content(digest, content, NULL);
        mr_weights_digest_destroy(digest);
        double seconds = (double)(mr_clock_ns() - start_ns) / 1e9;
        if (i > 0 && seconds < best) best = seconds;
    }
    return best;
}

int main(int argc, char **argv)
{
    struct mr_model_source source;
    struct mr_error err = {0};
    uint64_t bytes = 0;
    if (argc != 2 || mr_model_files_read(&source, argv[1], &err) != MR_OK) {
        fprintf(stderr, "usage: bench_digest MODEL (%s)\n", err.detail);
        return 2;
    }
    for (uint32_t i = 0; i < source.tensors->count; i++)
        bytes += source.tensors->entries[i].size_bytes;
    printf("{\"bytes\": %llu", (unsigned long long)bytes);
    for (uint32_t threads = 1; threads <= 4; threads *= 2) {
        if (mr_parallel_set_thread_count(threads, &err) != MR_OK) break;
        double seconds = best_seconds(&source);
        printf(", \"threads_%u_ms\": %.2f, \"threads_%u_GB_s\": %.2f", threads, seconds * 1e3,
               threads, (double)bytes / seconds / 1e9);
    }
    puts("}");
    mr_model_source_close(&source);
    return 0;
}
