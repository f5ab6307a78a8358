#ifndef NATIVETEST_H
#define NATIVETEST_H

#include <ggml.h>

void sum_squares_of_rows(struct ggml_tensor *dst, int ith, int nth, void *userdata);
void scale_by_param(struct ggml_tensor *dst, int ith, int nth, void *userdata);
void throw_exception(struct ggml_tensor *dst, int ith, int nth, void *userdata);
void does_nothing(struct ggml_tensor *dst, int ith, int nth, void *userdata);

// Number of exceptions that have left throw_exception.
extern int left;

#endif
