// Version: the library's own answer, for programs that link with the shared library.
#include <delta/version.h>

const char *delta_version(void) { return DELTA_VERSION_STRING; }
