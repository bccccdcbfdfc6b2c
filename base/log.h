// Log sink: the library never prints; it hands lines to the sink its caller gave.
#ifndef DELTA_BASE_LOG_H_
#define DELTA_BASE_LOG_H_

#include <delta/log.h>

#include "base/status.h"

// Formats and delivers one line; control characters are escaped. Does nothing when the sink is empty.
void delta_log(delta_log_sink_t sink, delta_log_level_t level, const char *format, ...) DELTA_PRINTF(3, 4);

#endif // DELTA_BASE_LOG_H_
