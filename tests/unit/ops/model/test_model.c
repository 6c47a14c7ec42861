#include "ops/model/model.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "ops/files/model_files.h"

#include "../real_model.h"
#include "../scratch.h"
#include "../tiny_folder.h"

#include <math.h>

/* ---- the real model, end to end ---- */

static struct mr_model *open_model(const char *path, enum mr_dtype dtype)
{
    struct mr_model_options options = {.path = path,
                                       .device = "cpu",
                                       .dtype = dtype,
                                       .kv_bytes = (uint64_t)32 << 20,
                                       .rows_max = 64,
                                       .sequences_max = 4};
    struct mr_model *model;
    struct mr_error err = {0};
    if (mr_model_open(&model, &options, &err) != MR_OK) fail_msg("%s", err.detail);
    return model;
}

static const struct mr_sampling greedy = {.top_p = 1.0f, .repetition_penalty = 1.0f, .logprobs = 0};

/* Encodes the text and generates `count` greedy tokens. */
static void generate(struct mr_model *model, const char *text, uint32_t *out, uint32_t count)
{
    const struct mr_tokenizer *tokenizer = mr_model_tokenizer(model);
    struct mr_tokenizer_scratch *scratch = mr_tokenizer_scratch_create(tokenizer);
    struct mr_encode_options options = {.add_special = true, .parse_special = true};
    uint32_t prompt[64], blocks[128 / MR_BLOCK_TOKENS + 1];
    struct mr_id_list list = {.ids = prompt, .max = 64};
    assert_int_equal(mr_tokenizer_encode(tokenizer, scratch, (struct mr_text){text, strlen(text)},
                                         options, &list, NULL),
                     MR_OK);
    size_t length = list.count;
    mr_tokenizer_scratch_destroy(scratch);
    for (uint32_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        blocks[i] = i;
    struct mr_batch_sequence sequence = {
        .row_count = (uint32_t)length, .blocks = blocks, .logit_rows = 1};
    struct mr_batch batch = {prompt, (uint32_t)length, &sequence, 1};
    for (uint32_t i = 0; i < count; i++) {
        struct mr_sample_row row = {.sampling = &greedy, .position = i};
        struct mr_sample sample;
        assert_int_equal(mr_model_forward(model, &batch, NULL), MR_OK);
        assert_int_equal(mr_model_sample(model, &row, 1, &sample, NULL), MR_OK);
        out[i] = sample.token_id;
        sequence.context_tokens += sequence.row_count;
        sequence.row_count = batch.row_count = 1;
        batch.token_ids = &out[i];
    }
}

static void greedy_tokens_of_the_real_model_equal_the_reference(void **state)
{
    (void)state;
    static const uint32_t capital[] = {7042, 30, 198, 198, 504, 2988, 314, 42,
                                       216,  34, 32,  33,  40,  29,   32,  33};
    static const uint32_t wheel[] = {504,   8656, 314, 253,  7631, 3476, 338, 18065,
                                     30644, 5522, 618, 7974, 5522, 30,   657, 506};
    struct mr_model *model = open_model(real_model_path(), MR_DTYPE_F32);
    uint32_t tokens[16];
    generate(model, "The capital of France is", tokens, 16);
    assert_memory_equal(tokens, capital, sizeof capital);
    generate(model, "<|im_start|>user\nWhat turns a mill wheel?<|im_end|>\n<|im_start|>assistant\n",
             tokens, 16);
    assert_memory_equal(tokens, wheel, sizeof wheel);
    mr_model_close(model);
}

static void bf16_starts_like_the_reference(void **state)
{
    (void)state;
    struct mr_model *model = open_model(real_model_path(), MR_DTYPE_BF16);
    uint32_t tokens[2];
    generate(model, "The capital of France is", tokens, 2);
    assert_int_equal(tokens[0], 7042);
    assert_int_equal(tokens[1], 30);
    const struct mr_model_info *info = mr_model_info(model);
    assert_string_equal(info->dtype, "bf16");
    assert_string_equal(info->architecture, "llama");
    assert_int_equal(info->vocab_size, 49152);
    assert_int_equal(info->context_tokens, 8192);
    assert_int_equal(info->parameter_count, 134515008);
    assert_int_equal(info->kv_bytes_per_token, 30 * 2 * 3 * 64 * 2);
    assert_int_equal(info->block_count,
                     ((uint64_t)32 << 20) / (info->kv_bytes_per_token * MR_BLOCK_TOKENS));
    assert_true(info->weight_bytes < (uint64_t)290 << 20);
    mr_model_close(model);
}

/* The Q4_1 file is computed in its own format and needs the memory of that format, like int8 and
 * int4. All begin with the tokens of the reference. */
static void integer_weights_start_like_the_reference(void **state)
{
    (void)state;
    static const struct {
        enum mr_dtype dtype;
        const char *name;
        uint64_t bytes_max;
    } kinds[] = {{MR_DTYPE_AUTO, "quantized", (uint64_t)98 << 20},
                 {MR_DTYPE_INT8, "int8", (uint64_t)148 << 20},
                 {MR_DTYPE_INT4, "int4", (uint64_t)90 << 20}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct mr_model *model = open_model(real_model_path(), kinds[i].dtype);
        const struct mr_model_info *info = mr_model_info(model);
        uint32_t tokens[2];
        generate(model, "The capital of France is", tokens, 2);
        assert_int_equal(tokens[0], 7042);
        assert_int_equal(tokens[1], 30);
        assert_string_equal(info->dtype, kinds[i].name);
        assert_string_equal(info->kv_dtype, "bf16");
        assert_non_null(strstr(info->numerics, kinds[i].name));
        assert_true(info->weight_bytes < kinds[i].bytes_max);
        mr_model_close(model);
    }
}

/* ---- the interface, on a tiny model ---- */

#define TINY "tests/golden/models/grouped_tied"

static void rejected(struct mr_model_options options, const char *because)
{
    struct mr_model *model;
    struct mr_error err = {0};
    if (!options.path) options.path = TINY;
    if (!options.device) options.device = "cpu";
    assert_int_not_equal(mr_model_open(&model, &options, &err), MR_OK);
    assert_null(model);
    if (!strstr(err.detail, because)) fail_msg("\"%s\" without \"%s\"", err.detail, because);
}

static void invalid_paths_and_options_are_rejected(void **state)
{
    (void)state;
    struct mr_model_options options = {.rows_max = 8, .sequences_max = 2};
    options.path = "absent";
    rejected(options, "absent");
    options.path = NULL;
    options.device = "cuda:0";
    options.backend = "cpu";
    rejected(options, "device cpu only");
    options.backend = NULL;
    options.device = "tpu";
    rejected(options, "tpu");
    options.device = NULL;
    options.backend = "cpu";
    options.dtype = MR_DTYPE_F16;
    rejected(options, "the backend cpu cannot compute in");
    options.backend = "torch";
    options.dtype = MR_DTYPE_INT4;
    rejected(options, "the backend torch cannot compute in int8 or int4");
    options.backend = NULL;
    options.dtype = MR_DTYPE_F32;
    options.rows_max = 0;
    rejected(options, "room for a row");
}

static void run(struct mr_model *model, const uint32_t *tokens, uint32_t count, uint32_t context,
                uint32_t block)
{
    struct mr_batch_sequence sequence = {
        .row_count = count, .context_tokens = context, .blocks = &block, .logit_rows = 1};
    struct mr_batch batch = {tokens, count, &sequence, 1};
    assert_int_equal(mr_model_forward(model, &batch, NULL), MR_OK);
}

static struct mr_kv_place at(uint32_t block)
{
    return (struct mr_kv_place){.block = block};
}

static void kv_moves_between_blocks_and_bytes(void **state)
{
    (void)state;
    static const uint32_t tokens[] = {5, 9, 2, 250, 17, 1, 33, 4};
    struct mr_model *model = open_model(TINY, MR_DTYPE_F32);
    float expected[272], out[272];
    /* Two layers: a panel of 16 keys of 16 dims, and 7 words of 16 values. */
    unsigned char bytes[2 * (16 * 64 + 7 * 64)];
    run(model, tokens, 8, 0, 0);
    assert_int_equal(mr_model_logits(model, 0, expected, NULL), MR_OK);
    mr_model_kv_copy(model, at(0), at(3), 7);
    run(model, tokens + 7, 1, 7, 3);
    assert_int_equal(mr_model_logits(model, 0, out, NULL), MR_OK);
    assert_memory_equal(out, expected, sizeof out);
    assert_int_equal(mr_model_kv_export_bytes(model, 7), sizeof bytes);
    assert_int_equal(mr_model_kv_export(model, at(0), 7, bytes, sizeof bytes, NULL), MR_OK);
    assert_int_equal(mr_model_kv_import(model, at(5), 7, bytes, sizeof bytes, NULL), MR_OK);
    run(model, tokens + 7, 1, 7, 5);
    assert_int_equal(mr_model_logits(model, 0, out, NULL), MR_OK);
    assert_memory_equal(out, expected, sizeof out);
    mr_model_kv_copy(model, at(0), at(5), MR_BLOCK_TOKENS);
    assert_memory_equal(mr_model_kv_bytes_of(model, 5), mr_model_kv_bytes_of(model, 0),
                        mr_model_kv_export_bytes(model, MR_BLOCK_TOKENS));
    assert_int_equal(mr_model_kv_import(model, at(5), 7, bytes, sizeof bytes - 1, NULL),
                     MR_MALFORMED);
    assert_int_equal(mr_model_kv_export(model, at(5), 6, bytes, sizeof bytes, NULL), MR_MALFORMED);
    mr_model_close(model);
}

/* The K or V of a token takes 16 bytes and a scale, where bf16 takes 32 bytes. An exported block is
 * the bytes of the pool, and its kv_dtype differs from that of every other kind of block. */
static void kv_in_int8_takes_half_the_pool(void **state)
{
    (void)state;
    static const uint32_t tokens[] = {5, 9, 2, 250, 17, 1, 33, 4};
    struct mr_model_options options = {.path = TINY,
                                       .device = "cpu",
                                       .dtype = MR_DTYPE_BF16,
                                       .kv_bytes = (uint64_t)32 << 20,
                                       .rows_max = 64,
                                       .sequences_max = 4,
                                       .export_int8 = true,
                                       .kv_int8 = true};
    struct mr_model *exact = open_model(TINY, MR_DTYPE_BF16), *model;
    assert_int_equal(mr_model_open(&model, &options, NULL), MR_OK);
    const struct mr_model_info *info = mr_model_info(model);
    assert_string_equal(info->kv_dtype, "int8 for bf16");
    assert_int_equal(info->kv_bytes_per_token * 32, mr_model_info(exact)->kv_bytes_per_token * 18);
    assert_int_equal(info->block_count, mr_model_info(exact)->block_count * 32 / 18);
    assert_int_equal(mr_model_kv_export_bytes(model, MR_BLOCK_TOKENS),
                     info->kv_bytes_per_token * MR_BLOCK_TOKENS);
    assert_non_null(mr_model_kv_bytes_of(model, 0));
    float expected[272], out[272];
    unsigned char bytes[2 * 16 * (16 + 2) + 2 * 7 * (16 + 2)];
    run(model, tokens, 7, 0, 0);
    const size_t size = mr_model_kv_export_bytes(model, 7);
    assert_true(size <= sizeof bytes);
    assert_int_equal(mr_model_kv_export(model, at(0), 7, bytes, size, NULL), MR_OK);
    assert_int_equal(mr_model_kv_import(model, at(5), 7, bytes, size, NULL), MR_OK);
    run(model, tokens + 7, 1, 7, 0);
    assert_int_equal(mr_model_logits(model, 0, expected, NULL), MR_OK);
    run(model, tokens + 7, 1, 7, 5);
    assert_int_equal(mr_model_logits(model, 0, out, NULL), MR_OK);
    assert_memory_equal(out, expected, sizeof out);
    mr_model_close(model);
    mr_model_close(exact);
    struct mr_error err = {0};
    options.backend = "torch";
    assert_int_equal(mr_model_check_options(&options, &err), MR_BAD_CONFIG);
    assert_non_null(strstr(err.detail, "kv-dtype int8"));
}

static void a_block_stored_in_int8_gives_nearly_the_same_logits(void **state)
{
    (void)state;
    static const uint32_t tokens[] = {5, 9, 2, 250, 17, 1, 33, 4};
    struct mr_model_options options = {.path = TINY,
                                       .device = "cpu",
                                       .dtype = MR_DTYPE_F32,
                                       .kv_bytes = (uint64_t)32 << 20,
                                       .rows_max = 64,
                                       .sequences_max = 4,
                                       .export_int8 = true};
    struct mr_model *exact = open_model(TINY, MR_DTYPE_F32), *model;
    assert_int_equal(mr_model_open(&model, &options, NULL), MR_OK);
    assert_string_equal(mr_model_info(exact)->kv_dtype, "f32");
    assert_string_equal(mr_model_info(model)->kv_dtype, "int8 of f32");
    assert_null(mr_model_kv_bytes_of(model, 0));
    float expected[272], out[272];
    unsigned char bytes[2 * 16 * (16 + 2) + 2 * 7 * (16 + 2)];
    run(model, tokens, 8, 0, 0);
    assert_int_equal(mr_model_logits(model, 0, expected, NULL), MR_OK);
    assert_int_equal(mr_model_kv_export_bytes(model, 7), sizeof bytes);
    assert_int_equal(mr_model_kv_export(model, at(0), 7, bytes, sizeof bytes, NULL), MR_OK);
    assert_int_equal(mr_model_kv_import(model, at(5), 7, bytes, sizeof bytes, NULL), MR_OK);
    run(model, tokens + 7, 1, 7, 5);
    assert_int_equal(mr_model_logits(model, 0, out, NULL), MR_OK);
    assert_memory_not_equal(out, expected, sizeof out);
    for (uint32_t i = 0; i < 272; i++)
        assert_true(fabsf(out[i] - expected[i]) < 0.05f);
    mr_model_close(model);
    mr_model_close(exact);
}

static void logits_of_the_caller_are_sampled_like_those_of_the_model(void **state)
{
    (void)state;
    static const uint32_t tokens[] = {5, 9, 2};
    struct mr_model *model = open_model(TINY, MR_DTYPE_F32);
    float logits[272];
    run(model, tokens, 3, 0, 1);
    assert_int_equal(mr_model_logits(model, 0, logits, NULL), MR_OK);
    struct mr_sample_row rows[] = {{.sampling = &greedy}, {.sampling = &greedy, .logits = logits}};
    struct mr_sample samples[2];
    assert_int_equal(mr_model_sample(model, rows, 2, samples, NULL), MR_OK);
    assert_int_equal(samples[0].token_id, samples[1].token_id);
    for (uint32_t i = 0; i < 272; i++)
        assert_true(logits[i] <= logits[samples[0].token_id]);
    assert_int_equal(mr_model_sample(model, rows, 0, samples, NULL), MR_OK);
    mr_model_close(model);
}

static void the_digest_depends_on_the_weights_and_not_on_the_dtype(void **state)
{
    (void)state;
    struct mr_model *f32 = open_model(TINY, MR_DTYPE_F32);
    struct mr_model *bf16 = open_model(TINY, MR_DTYPE_BF16);
    struct mr_model *other = open_model("tests/golden/models/qwen2", MR_DTYPE_F32);
    assert_memory_equal(mr_model_info(f32)->weights_digest, mr_model_info(bf16)->weights_digest,
                        32);
    assert_memory_not_equal(mr_model_info(f32)->weights_digest,
                            mr_model_info(other)->weights_digest, 32);
    assert_string_equal(mr_model_info(f32)->name, "grouped_tied");
    assert_true(isnan(mr_model_info(f32)->defaults.temperature));
    mr_model_close(f32);
    mr_model_close(bf16);
    mr_model_close(other);
}

/* The pool takes half of the memory that remains after the weights, but at most kv_bytes. */
static void the_kv_pool_fits_into_the_memory(void **state)
{
    (void)state;
    struct mr_model *whole = open_model(TINY, MR_DTYPE_F32);
    const uint64_t weights = mr_model_info(whole)->weight_bytes, pool = (uint64_t)32 << 20;
    const uint32_t most = mr_model_info(whole)->block_count;
    mr_model_close(whole);
    static const struct {
        uint64_t spare_bytes;
        bool all;
    } cases[] = {
        {(uint64_t)1 << 30, true}, {(uint64_t)64 << 20, true}, {(uint64_t)32 << 20, false}};
    struct mr_model_options options = {.path = TINY,
                                       .device = "cpu",
                                       .dtype = MR_DTYPE_F32,
                                       .kv_bytes = pool,
                                       .rows_max = 64,
                                       .sequences_max = 4};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mr_model *model;
        options.memory_bytes = weights + cases[i].spare_bytes;
        assert_int_equal(mr_model_open(&model, &options, NULL), MR_OK);
        uint32_t blocks = mr_model_info(model)->block_count;
        assert_true(cases[i].all ? blocks == most : blocks < most && blocks >= most / 3);
        mr_model_close(model);
    }
    struct mr_model *model;
    options.memory_bytes = weights;
    assert_int_equal(mr_model_open(&model, &options, NULL), MR_OK);
    assert_int_equal(mr_model_info(model)->block_count, 1); /* a pool has at least one */
    mr_model_close(model);
}

static void digest_of(const char *path, uint64_t digest_cache_bytes, unsigned char digest[32])
{
    struct mr_model_options options = {.path = path,
                                       .device = "cpu",
                                       .dtype = MR_DTYPE_F32,
                                       .kv_bytes = (uint64_t)32 << 20,
                                       .rows_max = 64,
                                       .sequences_max = 4,
                                       .digest_cache_bytes = digest_cache_bytes};
    struct mr_model *model;
    struct mr_error err = {0};
    if (mr_model_open(&model, &options, &err) != MR_OK) fail_msg("%s", err.detail);
    memcpy(digest, mr_model_info(model)->weights_digest, 32);
    mr_model_close(model);
}

/* The links have the stamps of the files of the tree, which are older than
 * MR_DIGEST_CACHE_AGE_NS. */
static void the_hash_of_large_weights_is_kept_beside_them(void **state)
{
    (void)state;
    static const char *const names[] = {"config.json", "generation_config.json",
                                        "model.safetensors", "tokenizer.json",
                                        "tokenizer_config.json"};
    struct scratch scratch;
    char here[1024], target[2048];
    unsigned char hashed[32], kept[32], damaged[32], small[32];
    scratch_open(&scratch);
    assert_non_null(getcwd(here, sizeof here));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(target, sizeof target, "%s/%s/%s", here, TINY, names[i]);
        snprintf(scratch.path, sizeof scratch.path, "%s/%s", scratch.folder, names[i]);
        assert_int_equal(symlink(target, scratch.path), 0);
    }
    digest_of(scratch.folder, 1, hashed);
    digest_of(scratch.folder, 1, kept);
    assert_memory_equal(hashed, kept, 32);

    snprintf(scratch.path, sizeof scratch.path, "%s/.millrace-digest", scratch.folder);
    FILE *file = fopen(scratch.path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -2, SEEK_END), 0);
    int digit = fgetc(file);
    assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
    assert_int_not_equal(fputc(digit == '0' ? '1' : '0', file), EOF);
    assert_int_equal(fclose(file), 0);
    digest_of(scratch.folder, 1, damaged);
    assert_memory_not_equal(damaged, hashed, 32); /* so the file was used */
    digest_of(scratch.folder, (uint64_t)1 << 30, small);
    assert_memory_equal(small, hashed, 32);
    digest_of(scratch.folder, 0, small);
    assert_memory_equal(small, hashed, 32);
    scratch_close(&scratch);
}

/* ---- files that change while they are loaded ---- */

#define TINY_GGUF "tests/golden/gguf/llama3_rope_sharded.gguf"

struct change {
    char path[192];
    bool overwrite; /* false: truncate */
    uint32_t left;  /* tensors that are loaded before */
};

static void change_file(void *context, uint64_t done, uint64_t total)
{
    struct change *change = context;
    (void)done;
    (void)total;
    if (change->left > 0 && --change->left > 0) return;
    if (!change->overwrite) {
        assert_int_equal(truncate(change->path, 3000), 0);
        return;
    }
    FILE *file = fopen(change->path, "r+b");
    assert_non_null(file);
    assert_int_equal(fputc('x', file), 'x');
    assert_int_equal(fclose(file), 0);
}

static void copy_to(const char *from, const char *to)
{
    static unsigned char bytes[1 << 20];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_true(in && out);
    for (size_t size; (size = fread(bytes, 1, sizeof bytes, in)) > 0;)
        assert_int_equal(fwrite(bytes, 1, size, out), size);
    assert_int_equal(fclose(in) + fclose(out), 0);
    const struct timespec long_ago[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, to, long_ago, 0), 0);
}

/* before: the file changes between reading its header and loading; else after some tensors. */
static void check_change(const char *folder, struct change change, bool before, const char *because)
{
    struct mr_model_source source;
    struct mr_model_options options = {.device = "cpu",
                                       .rows_max = 8,
                                       .sequences_max = 2,
                                       .kv_bytes = 1 << 20,
                                       .progress = before ? NULL : change_file,
                                       .progress_context = &change};
    struct mr_error err = {0};
    options.path = folder ? folder : change.path;
    if (mr_model_files_read(&source, options.path, &err) != MR_OK) fail_msg("%s", err.detail);
    if (before) change_file(&change, 0, 0);
    options.source = &source;
    struct mr_model *model;
    assert_int_equal(mr_model_open(&model, &options, &err), MR_BAD_FILE);
    if (!strstr(err.detail, because) || !strstr(err.detail, options.path))
        fail_msg("\"%s\" without \"%s\" or \"%s\"", err.detail, because, options.path);
    mr_model_source_close(&source);
}

static void a_file_that_changes_during_loading_is_an_error(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        struct scratch scratch;
        struct change change = {.overwrite = i & 1, .left = i & 2 ? 0 : 3};
        const bool before = i & 2, in_folder = i & 4;
        if (in_folder)
            tiny_folder_open(&scratch, "grouped_tied");
        else
            scratch_open(&scratch);
        snprintf(change.path, sizeof change.path, "%s/%s", scratch.folder,
                 in_folder ? "model.safetensors" : "m.gguf");
        copy_to(in_folder ? TINY "/model.safetensors" : TINY_GGUF, change.path);
        check_change(in_folder ? scratch.folder : NULL, change, before,
                     change.overwrite ? "was changed while it was read" : "became shorter");
        scratch_close(&scratch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_tokens_of_the_real_model_equal_the_reference),
        cmocka_unit_test(bf16_starts_like_the_reference),
        cmocka_unit_test(integer_weights_start_like_the_reference),
        cmocka_unit_test(invalid_paths_and_options_are_rejected),
        cmocka_unit_test(kv_moves_between_blocks_and_bytes),
        cmocka_unit_test(kv_in_int8_takes_half_the_pool),
        cmocka_unit_test(a_block_stored_in_int8_gives_nearly_the_same_logits),
        cmocka_unit_test(logits_of_the_caller_are_sampled_like_those_of_the_model),
        cmocka_unit_test(the_digest_depends_on_the_weights_and_not_on_the_dtype),
        cmocka_unit_test(the_kv_pool_fits_into_the_memory),
        cmocka_unit_test(the_hash_of_large_weights_is_kept_beside_them),
        cmocka_unit_test(a_file_that_changes_during_loading_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
