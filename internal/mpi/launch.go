package mpi

import (
	"fmt"
	"strconv"
)

// A Launch describes the processes that a launcher started together, from the environment.
type Launch struct {
	Size     int // number of processes; 0 if unknown
	Rank     int // of this process; −1 if unknown
	OpenMPI  bool
	variable string // environment variable with Size
	rank     string // environment variable with Rank
	local    int    // processes on this machine; 0 if unknown
}

// launchers lists the environment variables with which launchers describe a process.
var launchers = []struct {
	size, rank, local string
	openMPI           bool
}{
	{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", true}, // mpirun of Open MPI
	{"PMI_SIZE", "PMI_RANK", localRanks, false},                                          // MPICH (hydra) and its relatives; Slurm's pmi2
	{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "", false},                                  // srun
	{"", "PMIX_RANK", "", false},                                                         // others that speak PMIx
}

const localRanks = "MPI_LOCALNRANKS"

// Launched reports whether a launcher has, or may have, started several processes together, one of which is
// this.
func Launched(getenv func(string) string) (l Launch, several bool) {
	for _, v := range launchers {
		rank, err := strconv.Atoi(getenv(v.rank))
		if err != nil || rank < 0 {
			continue
		}
		l = Launch{Rank: rank, OpenMPI: v.openMPI, variable: v.rank, rank: v.rank}
		if v.size == "" {
			return l, true
		}
		if l.Size, err = strconv.Atoi(getenv(v.size)); err != nil || l.Size < 1 {
			continue
		}
		l.variable = v.size
		l.local, _ = strconv.Atoi(getenv(v.local))
		return l, l.Size > 1
	}
	// A launcher that reports only the processes of this machine may have started others.
	if n, err := strconv.Atoi(getenv(localRanks)); err == nil && n > 1 {
		return Launch{Rank: -1, variable: localRanks}, true
	}
	return Launch{Size: 1, Rank: 0}, false
}

// String describes the launch.
func (l Launch) String() string {
	if l.Size == 0 {
		return fmt.Sprintf("a launcher has started several processes (%s is set)", l.variable)
	}
	return fmt.Sprintf("a launcher has started %d processes (%s)", l.Size, l.variable)
}
