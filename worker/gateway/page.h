/* page - the HTML page at /, on which a person tries a prompt. It uses nothing from outside. */
#ifndef MR_WORKER_GATEWAY_PAGE_H
#define MR_WORKER_GATEWAY_PAGE_H

#include <stddef.h>

extern const char mr_gateway_html[];
extern const size_t mr_gateway_html_length;

#endif
