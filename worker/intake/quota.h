/* quota - which tenants may start requests now, by the tokens that each may compute in a minute and
 * in a day (--tenant-quota). A tenant above its quota waits: its records stay in Kafka.
 *
 * Each limit is a token bucket: it holds at most the limit, refills evenly over its period, and is
 * full at the start of the worker. A request reserves the most tokens that it can compute when it
 * is admitted, and is charged with those that it did compute when it ends. A tenant may be admitted
 * while a bucket holds more than is reserved. So one request may exceed the rest of a bucket, which
 * then becomes negative; otherwise a request larger than the limit would never run.
 *
 * Owner:  intake thread. Pure: no clock. Memory: the struct; zeroed: no limits. Errors: none. */
#ifndef MR_WORKER_INTAKE_QUOTA_H
#define MR_WORKER_INTAKE_QUOTA_H

#include "worker/config/config.h"

struct mr_quota_bucket {
    double limit; /* 0: none */
    double left;  /* may be negative */
};

struct mr_quota {
    struct {
        struct mr_quota_bucket minute, day;
        uint64_t reserved;
    } tenants[MR_LIST_MAX];
    uint64_t now_ns; /* of the last refill; 0: none */
};

/* Takes the limits of the configuration's tenants. */
void mr_quota_open(struct mr_quota *quota, const struct mr_config *config);
/* Refills the buckets. Returns the tenants that may be admitted: bit i for tenant i. */
uint64_t mr_quota_room(struct mr_quota *quota, uint64_t now_ns);
void mr_quota_reserve(struct mr_quota *quota, uint32_t tenant, uint64_t tokens);
/* The request has ended. reserved: what it had reserved; used: the tokens that it computed. */
void mr_quota_charge(struct mr_quota *quota, uint32_t tenant, uint64_t reserved, uint64_t used);

#endif
