package data

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goggml/ggml/llm/tokenizer"
)

// TextOptions say how text becomes samples.
type TextOptions struct {
	Length int // predicted tokens of a sample
	// SampleStart cuts the text where it occurs, and a sample begins at each
	// cut; what comes before the first is left out. A part of more than Length
	// tokens becomes several samples. Without SampleStart they follow each other
	// through the whole text.
	SampleStart        string
	IncludeSampleStart bool // keep the string itself in the samples
	// Overlapping lets a sample that is too short go on in the text beyond the
	// next cuts.
	Overlapping bool
	// FillWithNext appends the samples that follow, with their BOS and EOS, to
	// one that is too short.
	FillWithNext bool
	SeparateBOS  bool // put BOS before each sample that begins at a cut
	SeparateEOS  bool // put EOS after each
}

// FromText tokenises text into samples.
func FromText(t *tokenizer.Tokenizer, text string, o TextOptions) (*Dataset, error) {
	if o.Length < 1 {
		return nil, fmt.Errorf("samples of %d tokens are empty", o.Length)
	}
	texts := []string{text}
	if o.SampleStart != "" {
		texts = cut(text, o.SampleStart, o.IncludeSampleStart)
		if len(texts) == 0 {
			return nil, fmt.Errorf("the text does not contain %q, where a sample would start", o.SampleStart)
		}
	}
	var parts []part
	for i, text := range texts {
		p := part{ids: t.Encode(text, tokenizer.EncodeOptions{ParseSpecial: true})}
		if o.SampleStart != "" && o.SeparateBOS || i == 0 && t.AddsBOS() {
			p.bos = special(t.BOS())
		}
		if o.SampleStart != "" && o.SeparateEOS {
			p.eos = special(t.EOS())
		}
		parts = append(parts, p)
	}
	var samples []Sample
	for i := range parts {
		samples = appendPart(samples, parts[i:], o)
	}
	if len(samples) == 0 {
		return nil, fmt.Errorf("the text has no sample of at least 2 tokens")
	}
	return New(o.Length, samples), nil
}

// cut splits text where the marker begins; text before the first is dropped.
func cut(text, marker string, keep bool) []string {
	var texts []string
	for i, text := range strings.Split(text, marker) {
		if i == 0 {
			continue
		}
		if keep {
			text = marker + text
		}
		if text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// A part is the tokens between two cuts, and the special tokens around them,
// if any.
type part struct{ bos, ids, eos []int32 }

// tokens puts a part together; the one of a whole text without special tokens is large,
// and not copied.
func (p part) tokens() []int32 {
	if len(p.bos) == 0 && len(p.eos) == 0 {
		return p.ids
	}
	return slices.Concat(p.bos, p.ids, p.eos)
}

func special(id int32) []int32 {
	if id < 0 {
		return nil
	}
	return []int32{id}
}

// appendPart makes the samples that begin in the first part.
func appendPart(samples []Sample, parts []part, o TextOptions) []Sample {
	own := parts[0].tokens()
	all := own
	// The last sample may take up to Length tokens more to be full.
	need := len(own) + o.Length
	for i := 1; (o.Overlapping || o.FillWithNext) && i < len(parts) && len(all) < need; i++ {
		switch next := parts[i]; {
		case o.Overlapping:
			all = slices.Concat(all[:len(all)-len(parts[i-1].eos)], next.ids, next.eos)
		case o.FillWithNext:
			all = slices.Concat(all, next.bos, next.ids, next.eos)
		}
	}
	for from := 0; from < max(1, len(own)-1); from += o.Length {
		if tokens := all[from:min(len(all), from+o.Length+1)]; len(tokens) > 1 {
			samples = append(samples, Sample{Tokens: tokens})
		}
	}
	return samples
}
