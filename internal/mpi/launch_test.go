package mpi

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLaunched(t *testing.T) {
	for _, c := range []struct {
		env     map[string]string
		want    Launch
		several bool
	}{
		{nil, Launch{Size: 1}, false},
		{map[string]string{"OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_RANK": "2", "PMIX_RANK": "2"}, Launch{Size: 3, Rank: 2, OpenMPI: true, variable: "OMPI_COMM_WORLD_SIZE", rank: "OMPI_COMM_WORLD_RANK"}, true},
		{map[string]string{"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0", "PMIX_RANK": "0"}, Launch{Size: 1, OpenMPI: true, variable: "OMPI_COMM_WORLD_SIZE", rank: "OMPI_COMM_WORLD_RANK"}, false},
		{map[string]string{"PMI_SIZE": "2", "PMI_RANK": "0", "MPI_LOCALNRANKS": "1"}, Launch{Size: 2, variable: "PMI_SIZE", rank: "PMI_RANK", local: 1}, true},
		{map[string]string{"PMI_RANK": "1", "PMIX_RANK": "1"}, Launch{Rank: 1, variable: "PMIX_RANK", rank: "PMIX_RANK"}, true},
		{map[string]string{"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "3"}, Launch{Size: 4, Rank: 3, variable: "SLURM_STEP_NUM_TASKS", rank: "SLURM_PROCID"}, true},
		{map[string]string{"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, Launch{Size: 1}, false}, // a batch script, without srun
		{map[string]string{"MPI_LOCALNRANKS": "2"}, Launch{Rank: -1, variable: "MPI_LOCALNRANKS"}, true},
		{map[string]string{"PMI_SIZE": "many", "PMI_RANK": "x"}, Launch{Size: 1}, false},
	} {
		l, several := Launched(func(name string) string { return c.env[name] })
		require.Equal(t, c.several, several, "%v", c.env)
		require.Equal(t, c.want, l, "%v", c.env)
	}
}

func TestShortVersion(t *testing.T) {
	for text, want := range map[string]string{
		"Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4": "Open MPI v4.1.4",
		"MPICH Version:\t4.0.2":                                  "MPICH 4.0.2",
		"Intel(R) MPI Library 2021.13 for Linux* OS":             "Intel(R) MPI Library 2021.13 for Linux* OS",
	} {
		require.Equal(t, want, shortVersion(text))
	}
}

func TestStartWithoutLibrary(t *testing.T) {
	t.Setenv(LibraryVariable, "/no/libmpi.so")
	_, err := Start(t.Context(), Launch{Size: 2, variable: "PMI_SIZE"}, Options{})
	require.EqualError(t, err, "a launcher has started 2 processes (PMI_SIZE), and without its library each would train alone: install the library of MPICH where the system finds it (LD_LIBRARY_PATH), or name it with GOGGML_MPI: "+
		"/no/libmpi.so: cannot open shared object file: No such file or directory")
	t.Setenv(LibraryVariable, "libc.so.6")
	_, err = Start(t.Context(), Launch{Size: 2, OpenMPI: true, variable: "OMPI_COMM_WORLD_SIZE"}, Options{})
	require.ErrorContains(t, err, "libc.so.6 has no MPI_Get_library_version")
}
