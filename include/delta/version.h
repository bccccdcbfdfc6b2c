// Version of the library. The build reads the numbers from here.
#ifndef DELTA_VERSION_H_
#define DELTA_VERSION_H_

#include <delta/export.h>

#ifdef __cplusplus
extern "C" {
#endif

// Of the headers a program was compiled with.
#define DELTA_VERSION_STRING "0.1.0"

// Of the library it runs with; the same text form. Static storage.
DELTA_API const char *delta_version(void);

#ifdef __cplusplus
}
#endif

#endif // DELTA_VERSION_H_
