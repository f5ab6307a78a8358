package distill_test

import (
	"context"
	"fmt"
	"log"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/distill"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// Scores of all samples are computed before training, and the teacher is closed before the student is trained.
func ExampleOpen() {
	var samples *data.Dataset // of data.Load
	ctx, k := context.Background(), distill.ScorerOptions{TopK: 64}
	m, err := model.Load("teacher.gguf", model.LoadOptions{})
	if err != nil {
		fmt.Println("there is no teacher.gguf here")
		return
	}
	session, err := infer.NewSession(m, infer.SessionOptions{Context: samples.Longest()})
	if err != nil {
		log.Fatal(err)
	}
	scores, err := distill.Open(ctx, func() (*distill.Scorer, error) { return distill.NewScorer(session, k) },
		distill.Options{Folder: "cache", Key: "SHA-256 of teacher.gguf", ScorerOptions: k}, samples)
	session.Close()
	m.Close()
	if err != nil {
		log.Fatal(err)
	}
	defer scores.Close()
	loss := train.Loss{Name: "forward KL", Teacher: &train.Teacher{Teacher: lossgraph.Teacher{TopK: k.TopK}, Of: scores.Of}}
	fmt.Println(loss.Name) // for train.Options
	// Output: there is no teacher.gguf here
}
