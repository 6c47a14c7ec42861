/* redis_sim - Redis in memory under virtual time, behind the port of the connection threads
 * (kvcache/remote/redis_client.h): strings and lists, the commands that workers use, key expiry.
 *
 * Linked in place of kvcache/remote/redis_client.c; redis_sim_enter says which server and
 * machine the ports opened next belong to. Each command is executed after a latency and its reply
 * arrives after another. Faults: a server that is down (connections are lost), slow, full, or
 * evicts keys; FLUSHALL; stale replies, as from a lagging replica.
 *
 * Owner: one run. Memory: freed by _destroy. */
#ifndef MR_TESTS_SIM_FLEET_REDIS_SIM_H
#define MR_TESTS_SIM_FLEET_REDIS_SIM_H

#include "kvcache/remote/redis_client.h"
#include "tests/sim/fleet/coverage.h"
#include "tests/sim/fleet/platform.h"

struct sim_redis;

struct sim_redis *sim_redis_create(uint64_t seed, struct coverage *coverage);
void sim_redis_destroy(struct sim_redis *redis);
/* The ports that are opened from now on connect to this server, from this machine. */
void sim_redis_enter(struct sim_redis *redis, struct sim_machine *machine);

/* ---- faults ---- */
void sim_redis_stop(struct sim_redis *redis, uint64_t until_ns);
void sim_redis_slow(struct sim_redis *redis, uint64_t until_ns);
/* Reads return the state of a key before its last write. */
void sim_redis_lag(struct sim_redis *redis, uint64_t until_ns);
/* Removes all keys, or some of them. */
void sim_redis_flush(struct sim_redis *redis);
void sim_redis_evict(struct sim_redis *redis, uint32_t percent);

#endif
