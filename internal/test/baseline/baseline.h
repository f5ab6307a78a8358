#ifndef BASELINE_H
#define BASELINE_H

#include <stdint.h>
#include <string.h>

struct baseline_program;

int baseline_build(int times, int blocks);

struct baseline_program *baseline_new(int blocks, int64_t size, int64_t columns);
void baseline_compute(struct baseline_program *program, int times);
void baseline_free(struct baseline_program *program);

void baseline_serve_rpc(const char *endpoint, int threads);

#endif
