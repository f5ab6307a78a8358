// Package parallel has groups that train one model together: of the processes that a launcher such as mpirun has started,
// on one machine or on several, or of goroutines. It is not for dividing the work, which package train does.
//
//	ctx, world, err := parallel.Join(ctx)
//	…
//	options.Group = world
//
// The program is the same with one process, which needs no MPI: the world is then nil, and its methods
// act for a single process. Each process loads the model and the data, takes its share of the rows of
// each step, and the gradients are added up by MPI, whose library is loaded when a launcher has
// started several processes ([github.com/goggml/ggml/internal/mpi]).
package parallel
