package data_test

import (
	"context"
	"fmt"
	"os"

	"github.com/goggml/ggml/llm/data"
)

// countdown yields the examples 5, 4, 3, 2, 1.
func countdown(yield func(int, error) bool) {
	for n := 5; n > 0 && yield(n, nil); n-- {
	}
}

// encodeNumber returns a sample that predicts n tokens.
func encodeNumber(n int) (data.Sample, error) {
	return data.Sample{Tokens: make([]int32, n+1)}, nil
}

// A second call finds the tokens in the cache, and reads no examples.
func ExamplePrepare() {
	folder, err := os.MkdirTemp("", "tokens")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	for range 2 {
		d, stats, err := data.Prepare(context.Background(), countdown, encodeNumber, data.PrepareOptions{
			Length: 4, TooLong: data.DropLong, Cache: folder, Key: "countdown from 5",
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d samples of %d tokens, %d too long, from the cache: %v\n", d.Len(), stats.Tokens, stats.Dropped, stats.FromCache)
		d.Close()
	}
	// Output:
	// 4 samples of 10 tokens, 1 too long, from the cache: false
	// 4 samples of 10 tokens, 1 too long, from the cache: true
}

// Packed rows have several samples, which do not attend to each other.
func ExampleDataset_Packed() {
	var samples []data.Sample
	for n := range countdown {
		s, _ := encodeNumber(n)
		samples = append(samples, s)
	}
	single := data.New(5, samples)
	packed, err := single.Packed(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d rows, %.0f %% full\n", single.Len(), 100*single.Fill())
	fmt.Printf("%d rows, %.0f %% full\n", packed.Len(), 100*packed.Fill())
	row, err := packed.Row(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range row {
		fmt.Printf("a sample of %d predicted tokens\n", s.Predicted())
	}
	// Output:
	// 5 rows, 60 % full
	// 3 rows, 100 % full
	// a sample of 4 predicted tokens
	// a sample of 1 predicted tokens
}

// An epoch visits each row once; each group is in one bucket.
func ExampleShuffler() {
	s := data.Shuffler{Seed: 1, N: 6, Bucket: func(row int) int { return row % 2 }, Group: 3}
	for i := range s.N {
		fmt.Print(s.At(i)%2, " ")
	}
	fmt.Println()
	// Output: 1 1 1 0 0 0
}
