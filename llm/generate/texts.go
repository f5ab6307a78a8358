package generate

import (
	"context"
	"errors"
	"io"

	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
)

// A Result is the result of a [Request]. The text so far has been written even if there is an
// error.
type Result struct {
	Stats
	Err error // as of [Text]
}

// Texts continues several texts at once, as many as the session has room for; the next one begins
// when one ends. Together they take little more time than one. Beginnings that texts share are
// computed once. Each text ends as in [Text]; ctx cancels all.
func Texts(ctx context.Context, m *model.Model, s *infer.Session, requests []Request) []Result {
	results := make([]Result, len(requests))
	var open []*generation
	var steps stepper
	for started := 0; started < len(requests) || len(open) > 0; {
		// Also if there is no room for any text: NewSequence then returns the error.
		for ; started < len(requests) && (s.Free() > 0 || len(open) == 0); started++ {
			r, result := &requests[started], &results[started]
			if r.W == nil {
				result.Err = errNoWriter
				continue
			}
			q, err := s.NewSequence()
			if err != nil {
				result.Err = err
				continue
			}
			defer q.Close() // when a writer or a sampler panics
			g, err := newGeneration(ctx, m, q, r, &result.Stats, func(t Token) error { return writeText(r.W, t) })
			if err != nil {
				result.Err = err
				q.Close()
				continue
			}
			g.onEnd = func() {
				q.Close()
				result.Err = g.err
				if rest, _ := g.rest(); rest != "" { // an error has left it
					_, err := io.WriteString(r.W, rest)
					result.Err = errors.Join(result.Err, err)
				}
			}
			if g.draw(); !g.ended {
				open = append(open, g)
			}
		}
		open = steps.step(ctx, open)
	}
	return results
}
