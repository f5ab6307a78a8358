package infer

import "context"

// Score returns the scores [classes] of each text, given in tokens, by the classifier of a reranker. Most rerankers have one
// score, larger if the text's document answers its query better. It uses slots as [Session.Embed] does, and fails if the
// model's file has no classifier.
func (s *Session) Score(ctx context.Context, texts [][]int32) ([][]float32, error) {
	e, err := s.NewScoring(texts)
	if err != nil {
		return nil, err
	}
	return e.run(ctx)
}
