package infer

import (
	"context"
	"fmt"
)

// Score returns the scores [classes] of each text, given in tokens, by the classifier of a reranker. Most rerankers have one
// score, larger if the text's document answers its query better. It uses slots as [Session.Embed] does, and fails if the
// model's file has no classifier.
func (s *Session) Score(ctx context.Context, texts [][]int32) ([][]float32, error) {
	if err := s.acquire("Session.Score"); err != nil {
		return nil, err
	}
	defer s.access.Release()
	if err := s.checkOpen(); err != nil {
		return nil, err
	}
	classifier, ok := s.d.m.Architecture().Classifier()
	if !ok {
		return nil, fmt.Errorf("%s is not a reranker: it has no classifier (cls.weight or cls.output.weight) to score texts", s.d.m.Path)
	}
	pooled, err := s.pool(ctx, texts, Pooling(classifier.Pooling))
	if err != nil {
		return nil, err
	}
	if pooled, err = s.d.head(ctx, pooled, scores); err != nil {
		return nil, err
	}
	return s.vectors(pooled, false)
}
