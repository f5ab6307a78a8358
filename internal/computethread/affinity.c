#define _GNU_SOURCE // for cpu_set_t

#include "affinity.h"

#ifdef __linux__
#include <pthread.h>
#include <sched.h>

goggml_affinity goggml_affinity_save(void) {
	goggml_affinity affinity = {0};
	struct sched_param param;
	affinity.known = sched_getaffinity(0, sizeof affinity.cpus, (cpu_set_t *)affinity.cpus) >= 0 &&
		pthread_getschedparam(pthread_self(), &affinity.policy, &param) == 0;
	affinity.priority = affinity.known ? param.sched_priority : 0;
	return affinity;
}

void goggml_affinity_restore(const goggml_affinity *affinity) {
	if (!affinity->known) {
		return;
	}
	struct sched_param param = {.sched_priority = affinity->priority};
	pthread_setschedparam(pthread_self(), affinity->policy, &param);
	sched_setaffinity(0, sizeof affinity->cpus, (const cpu_set_t *)affinity->cpus);
}
#else
goggml_affinity goggml_affinity_save(void) { return (goggml_affinity){0}; }

void goggml_affinity_restore(const goggml_affinity *affinity) { (void)affinity; }
#endif
