#include "tests/fakes/fleet_rig.h"

#include "codec/check.h"

#include <stdio.h>
#include <string.h>

const struct fake_remote_options fleet_fast = {.latency_ns = 200000, .bytes_per_second = 1e8};

void fleet_start_as(struct fleet *fleet, struct fleet_kind kind,
                    const struct fake_remote_options *first,
                    const struct fake_remote_options *second)
{
    memset(fleet->next_ticket, 0, sizeof fleet->next_ticket);
    fleet->remotes[0] = fake_remote_create(first, NULL);
    fleet->remotes[1] = fake_remote_create(second, fleet->remotes[0]);
    for (uint32_t i = 0; i < 2; i++) {
        struct engine_rig *rig = &fleet->rigs[i];
        rig_init(rig);
        rig->options.block_count = 32;
        rig->options.chunk_tokens = 2 * (int32_t)MR_BLOCK_TOKENS;
        rig->options.context_tokens = FLEET_PROMPT_MAX + 64;
        rig->options.prompt_cache_entries = kind.no_logits ? 0 : 8;
        rig->options.deadline_admission = true;
        rig->fake_options.token_ms = 64.0 / MR_BLOCK_TOKENS;
        rig->fake_options.remote = kind.remote;
        rig->remote = fleet->remotes[i];
        rig_start(rig);
        fake_remote_set_clock(rig->remote, &rig->fake->now_ns);
    }
}

void fleet_start(struct fleet *fleet, const struct fake_remote_options *first,
                 const struct fake_remote_options *second)
{
    fleet_start_as(fleet, (struct fleet_kind){0}, first, second);
}

void fleet_end(struct fleet *fleet)
{
    for (uint32_t i = 2; i-- > 0;) {
        MR_ASSERT(fleet->rigs[i].fake->wrong_reads == 0);
        mr_engine_check(fleet->rigs[i].engine);
        rig_end(&fleet->rigs[i]);
        fake_remote_destroy(fleet->remotes[i]);
    }
}

void fleet_prompt(const struct engine_rig *rig, uint32_t *tokens, uint32_t shared, uint32_t count,
                  uint64_t ending)
{
    rig_tokens(rig, 7, tokens, count);
    if (count > shared) rig_tokens(rig, 1000 + ending, tokens + shared, count - shared);
}

const struct rig_seen *fleet_run(struct fleet *fleet, uint32_t worker, struct fleet_spec spec)
{
    struct engine_rig *rig = &fleet->rigs[worker];
    uint32_t tokens[FLEET_PROMPT_MAX], expected[FLEET_ANSWER],
        ticket = fleet->next_ticket[worker]++;
    char id[24];
    snprintf(id, sizeof id, "%u", ticket);
    fleet_prompt(rig, tokens, spec.shared, spec.count, spec.ending);
    struct mr_request *request = mr_fake_request(id, tokens, spec.count);
    request->ignore_eos = true;
    request->cache_read = !spec.no_read;
    if (spec.session != NULL)
        request->session = (struct mr_text){spec.session, strlen(spec.session)};
    struct mr_submission submission = {.request = request,
                                       .ticket = ticket,
                                       .tenant = spec.tenant != NULL ? spec.tenant : "default"};
    MR_ASSERT(rig_submit_as(rig, submission) == MR_OK);
    rig_run(rig);
    const struct rig_choice *choice = &rig->seen[ticket].choices[0];
    rig_expect(rig, tokens, spec.count, expected, FLEET_ANSWER);
    MR_ASSERT(choice->token_count == FLEET_ANSWER);
    MR_ASSERT(memcmp(choice->tokens, expected, sizeof expected) == 0);
    return &rig->seen[ticket];
}

void fleet_drain_remote(struct fleet *fleet, uint32_t worker)
{
    struct engine_rig *rig = &fleet->rigs[worker];
    while (fake_remote_next_ns(rig->remote) != UINT64_MAX) {
        uint64_t next_ns = fake_remote_next_ns(rig->remote);
        if (next_ns > rig->fake->now_ns) rig->fake->now_ns = next_ns;
        rig_step(rig);
    }
}

struct mr_remote_prefix_stats fleet_stats(const struct fleet *fleet, uint32_t worker)
{
    return mr_engine_stats(fleet->rigs[worker].engine).remote;
}
