// A team of OpenMP threads that sleeps. While there are more threads in teams than processors, GNU's OpenMP lets all of
// them wait by sleeping, after some microseconds of spinning; else they spin for milliseconds.
#ifndef GOGGML_TEAM_H
#define GOGGML_TEAM_H

typedef struct goggml_team goggml_team;

// A team of as many threads as there are processors; NULL where OpenMP is not GNU's, or there can be no more threads.
goggml_team *goggml_team_new(void);
// Ends the threads, soon.
void goggml_team_free(goggml_team *team);

#endif
