// Data files made by tests: npy arrays, and zip archives in every form that numpy and others write, also wrong ones.
#ifndef DELTA_TESTS_SUPPORT_DATA_FILES_H_
#define DELTA_TESTS_SUPPORT_DATA_FILES_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Bytes under construction; memory from malloc, released by delta_test_bytes_free. Running out of memory aborts.
typedef struct delta_test_bytes {
  unsigned char *data;
  size_t count, capacity;
} delta_test_bytes_t;

void delta_test_append(delta_test_bytes_t *bytes, const void *data, size_t size_bytes);
void delta_test_append_integer(delta_test_bytes_t *bytes, uint64_t value, size_t size_bytes); // little endian
void delta_test_bytes_free(delta_test_bytes_t *bytes);

// An npy file of format `version` with the header text as given (no padding added) and the data after it.
void delta_test_npy_raw(delta_test_bytes_t *bytes, int version, const char *header, const void *data, size_t data_bytes);
// The npy file of a C-ordered array; `shape` is the tuple's text, "(8, 4)".
void delta_test_npy(delta_test_bytes_t *bytes, const char *descr, const char *shape, const void *data, size_t data_bytes);

typedef enum delta_test_zip_form {
  DELTA_TEST_ZIP_STORED,
  DELTA_TEST_ZIP_DEFLATED,
  DELTA_TEST_ZIP_STREAMED, // deflated, sizes only in the directory and a descriptor after the data
  DELTA_TEST_ZIP_64,       // stored, all sizes and offsets in zip64 fields
} delta_test_zip_form_t;

// An archive under construction: `archive` has the entries, `directory` what comes after them.
typedef struct delta_test_zip {
  delta_test_bytes_t archive, directory;
  size_t entry_count;
  bool has_zip64;
} delta_test_zip_t;

void delta_test_zip_add(delta_test_zip_t *zip, const char *name, const void *data, size_t size_bytes, delta_test_zip_form_t form);
// Adds NAME.npy and frees nothing.
void delta_test_zip_add_array(delta_test_zip_t *zip, const char *name, const char *descr, const char *shape, const void *data,
                              size_t data_bytes, delta_test_zip_form_t form);
// Appends the directory and the end records; zip->archive is the file then.
void delta_test_zip_finish(delta_test_zip_t *zip);
void delta_test_zip_free(delta_test_zip_t *zip);

// A path in a temporary folder of this process, which is removed with all its files by delta_test_remove_folder.
enum { DELTA_TEST_FILE_PATH_BYTES = 256 };
const char *delta_test_file_path(const char *name, char out_path[DELTA_TEST_FILE_PATH_BYTES]);
// Writes a file there and gives its path.
const char *delta_test_write_file(const char *name, const void *data, size_t size_bytes, char out_path[DELTA_TEST_FILE_PATH_BYTES]);
void delta_test_remove_folder(void);

#endif // DELTA_TESTS_SUPPORT_DATA_FILES_H_
