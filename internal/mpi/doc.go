// Package mpi calls an MPI library that it loads at run time, so that one program works with Open MPI, MPICH
// and its relatives, and the standard binary interface of MPI 5, and requires none of them.
//
// One thread makes all calls of the library. It polls running sums, and exchanges heartbeats: every half second
// rank 0 sends each process a message, and each sends one to rank 0. So a process that has died, was stopped,
// or was disconnected is detected within a few seconds, whatever the others wait for.
package mpi
