package parallel_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/goggml/ggml/llm/parallel"
)

// Two ranks that would do different work both learn of it, instead of waiting for each other.
func ExampleAgreeOn() {
	var ranks sync.WaitGroup
	errs := make([]error, 2)
	for rank, group := range parallel.Local(2) {
		ranks.Add(1)
		go func() {
			defer ranks.Done()
			errs[rank] = parallel.AgreeOn(context.Background(), group, nil, nil, parallel.Shared{Name: "the number of texts", Value: 10 + rank})
		}()
	}
	ranks.Wait()
	var shared *parallel.SharedError
	fmt.Println(errors.As(errs[1], &shared), shared)
	// Output: true the group cannot train together: the number of texts is 10 on rank 0 and 11 on rank 1; give all ranks the same options, data and checkpoint
}
