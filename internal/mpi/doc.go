// Package mpi calls an MPI library that is loaded at run time, so that one program serves Open MPI,
// MPICH and its relatives, and the standard binary interface of MPI 5, and needs none of them.
//
// One thread makes all calls of the library. It looks after sums that are under way, and it hears
// from the other processes: rank 0 sends each a message every half second and each sends one to
// rank 0, so that a process that has died, that was stopped, or that the network has cut off is found
// within a few seconds, whatever the others wait for.
package mpi
