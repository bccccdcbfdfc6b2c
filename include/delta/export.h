// Symbol visibility and compiler hints of the public headers.
#ifndef DELTA_EXPORT_H_
#define DELTA_EXPORT_H_

#if defined(__GNUC__)
#define DELTA_API                                  __attribute__((visibility("default")))
#define DELTA_MUST_USE                             __attribute__((warn_unused_result))
#define DELTA_PRINTF(format_index, first_argument) __attribute__((format(printf, format_index, first_argument)))
#else
#define DELTA_API
#define DELTA_MUST_USE
#define DELTA_PRINTF(format_index, first_argument)
#endif

#endif // DELTA_EXPORT_H_
