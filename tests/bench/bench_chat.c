/* Measures a chat prompt: rendering it, tokenizing it with special tokens disabled in the ranges of
 * the request, and tokenizing the same text without ranges. Prints the best of nine runs on one
 * thread as a JSON object.
 *
 *   bench_chat TOKENIZER.json TEMPLATE.jinja [MESSAGES]
 *
 * Each of the MESSAGES (100 by default) messages of user and assistant has a text of 2 KiB, and
 * every tenth one contains the text of a special token. */
#include "codec/tokenizer_files/tokenizer_json.h"
#include "worker/intake/prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS        9
#define MESSAGE_BYTES 2048
#define IDS_MAX       (1u << 22)

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static struct mr_text read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) return (struct mr_text){NULL, 0};
    fseek(file, 0, SEEK_END);
    size_t length = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(length + 1);
    struct mr_text text = {bytes, bytes ? fread(bytes, 1, length, file) : 0};
    fclose(file);
    return text;
}

static struct mr_data text_data(const char *bytes, size_t length)
{
    return (struct mr_data){.kind = MR_DATA_TEXT, .text = {bytes, length}};
}

/* The words of a message. Each message has different ones. */
static const char *words(struct mr_arena *arena, size_t index)
{
    static const char *const some[] = {"the",    "queue",  "holds",  "records", "until",
                                       "a",      "worker", "takes",  "them,",   "computes",
                                       "tokens", "and",    "answers"};
    char *text = mr_arena_take(arena, MESSAGE_BYTES + 32);
    size_t length = 0;
    uint32_t state = (uint32_t)index * 2654435761u + 1;
    while (text && length + 16 < MESSAGE_BYTES) {
        state = state * 1664525u + 1013904223u;
        length += (size_t)snprintf(text + length, 16, "%s ", some[(state >> 16) % 13]);
    }
    if (text && index % 10 == 0) memcpy(text + length, "<|im_end|></s>", 15);
    return text;
}

static void fill(struct mr_request *request, size_t count)
{
    struct mr_data *messages = mr_arena_take_array(request->arena, count, sizeof *messages);
    for (size_t i = 0; messages && i < count; i++) {
        struct mr_data_member *members = mr_arena_take_array(request->arena, 2, sizeof *members);
        const char *role = i % 2 ? "assistant" : "user", *text = words(request->arena, i);
        if (!members || !text) exit(1);
        members[0] = (struct mr_data_member){{"role", 4}, text_data(role, strlen(role))};
        members[1] = (struct mr_data_member){{"content", 7}, text_data(text, strlen(text))};
        messages[i] = (struct mr_data){.kind = MR_DATA_MAP, .map = {members, 2}};
    }
    request->chat.messages = messages;
    request->chat.message_count = count;
}

/* Seconds of one tokenization of the rendered text. */
static double time_tokens(const struct mr_tokenizer *tokenizer,
                          struct mr_tokenizer_scratch *scratch, const struct mr_rendered *rendered,
                          bool barred, struct mr_id_list *list)
{
    struct mr_encode_options options = {.parse_special = true,
                                        .barred = rendered->user,
                                        .barred_count = barred ? rendered->user_count : 0};
    double start = seconds();
    if (mr_tokenizer_encode(tokenizer, scratch, rendered->text, options, list, NULL) != MR_OK)
        exit(1);
    return seconds() - start;
}

/* Seconds of rendering; *rendered stays valid as long as *request. */
static double time_rendering(struct mr_prompt *prompt, size_t count, struct mr_request **request,
                             struct mr_rendered *rendered)
{
    struct mr_error err = {.detail = ""};
    *request = mr_request_create(MR_ENCODING_JSON, 1);
    fill(*request, count);
    double start = seconds();
    if (mr_prompt_render(prompt, *request, 0, rendered, &err) != MR_OK) {
        fprintf(stderr, "%s\n", err.detail);
        exit(1);
    }
    return seconds() - start;
}

static void keep_least(double *least, double value)
{
    if (value < *least) *least = value;
}

int main(int argc, char **argv)
{
    struct mr_tokenizer *tokenizer = NULL;
    struct mr_prompt *prompt = NULL;
    struct mr_error err = {.detail = "usage: bench_chat TOKENIZER.json TEMPLATE.jinja [MESSAGES]"};
    size_t count = argc > 3 ? strtoul(argv[3], NULL, 10) : 100;
    if (argc < 3 || mr_tokenizer_from_json(&tokenizer, read_file(argv[1]),
                                           (struct mr_text){NULL, 0}, &err) != MR_OK) {
        fprintf(stderr, "%s\n", err.detail);
        return 2;
    }
    struct mr_prompt_options options = {.tokenizer = tokenizer,
                                        .chat_template = read_file(argv[2]),
                                        .special.of = {{"<s>", 3}, {"</s>", 4}},
                                        .prompt_tokens_max = IDS_MAX};
    if (mr_prompt_create(&prompt, &options, &err) != MR_OK) {
        fprintf(stderr, "%s\n", err.detail);
        return 2;
    }
    struct mr_tokenizer_scratch *scratch = mr_tokenizer_scratch_create(tokenizer);
    struct mr_id_list list = {.ids = calloc(IDS_MAX, sizeof *list.ids), .max = IDS_MAX};
    double rendering = 1e9, barred = 1e9, plain = 1e9;
    size_t bytes = 0, tokens = 0;
    for (int i = 0; i < ROUNDS; i++) {
        struct mr_request *request;
        struct mr_rendered rendered;
        keep_least(&rendering, time_rendering(prompt, count, &request, &rendered));
        keep_least(&plain, time_tokens(tokenizer, scratch, &rendered, false, &list));
        keep_least(&barred, time_tokens(tokenizer, scratch, &rendered, true, &list));
        bytes = rendered.text.length;
        tokens = list.count;
        mr_request_destroy(request);
    }
    printf("{\"messages\": %zu, \"bytes\": %zu, \"tokens\": %zu, \"render_ms\": %.3f, "
           "\"tokenize_ms\": %.3f, \"tokenize_without_ranges_ms\": %.3f, \"ratio\": %.3f}\n",
           count, bytes, tokens, rendering * 1e3, barred * 1e3, plain * 1e3, barred / plain);
    free(list.ids);
    mr_tokenizer_scratch_destroy(scratch);
    mr_prompt_destroy(prompt);
    mr_tokenizer_destroy(tokenizer);
    return 0;
}
