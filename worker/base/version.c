#include "worker/base/version.h"

const char mr_version[] = MR_VERSION;
