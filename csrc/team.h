// While there are more threads in OpenMP's teams than processors, GNU's OpenMP lets all of them wait by sleeping, after
// some microseconds of spinning; else they spin for milliseconds.
#ifndef GOGGML_TEAM_H
#define GOGGML_TEAM_H

#include "guard.h"

// A job that gives its thread a team of as many threads as there are processors, which sleeps for as long as that
// lives. Returns 0, and does nothing, where OpenMP is not GNU's or the process cannot have so many threads.
goggml_int goggml_take_team(void *a, void *b);

#endif
