package tokenizer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/tokenizer"
)

// naiveMerges is the textbook algorithm: it counts all pairs anew for each merge. Ties go to the pair of the oldest
// symbols.
func naiveMerges(words []string, byteTokens []string, n int) []string {
	age := map[string]int{}
	for i, text := range byteTokens {
		age[text] = i
	}
	var split [][]string
	for _, w := range words {
		split = append(split, strings.Split(strings.ReplaceAll(w, " ", "Ġ"), ""))
	}
	merges := []string{}
	for len(merges) < n {
		counts := map[[2]string]int{}
		for _, s := range split {
			for i := 1; i < len(s); i++ {
				counts[[2]string{s[i-1], s[i]}]++
			}
		}
		var best [2]string
		for p, c := range counts {
			older := age[p[0]] < age[best[0]] || p[0] == best[0] && age[p[1]] < age[best[1]]
			if c > counts[best] || c == counts[best] && older {
				best = p
			}
		}
		if counts[best] < 2 {
			break
		}
		text := best[0] + best[1]
		if _, ok := age[text]; !ok {
			age[text] = len(age)
		}
		if m := best[0] + " " + best[1]; !slices.Contains(merges, m) {
			merges = append(merges, m)
		}
		for k, s := range split {
			var out []string
			for i := 0; i < len(s); i++ {
				if i+1 < len(s) && s[i] == best[0] && s[i+1] == best[1] {
					out = append(out, text)
					i++
				} else {
					out = append(out, s[i])
				}
			}
			split[k] = out
		}
	}
	return merges
}

func TestTrainMatchesNaive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(` [abc]{1,7}`), 1, 30).Draw(rt, "words")
		cfg := need.Value(tokenizer.TrainBPE(slices.Values([]string{strings.Join(words, "")}), tokenizer.TrainOptions{VocabSize: 400}))(rt)
		require.Equal(rt, naiveMerges(words, cfg.Tokens[:256], 400), append([]string{}, cfg.Merges...))
	})
}

func TestTrainVocabulary(t *testing.T) {
	corpus := benchText(200_000)
	texts := strings.SplitAfter(corpus, "\n")
	opts := tokenizer.TrainOptions{VocabSize: 1000, Special: []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}, EOS: "<|im_end|>", AddBOS: true}
	for _, pre := range []string{"", "gpt-2", "llama-bpe", "qwen2", "smollm", "default"} {
		t.Run(pre, func(t *testing.T) {
			opts.Pre = pre
			cfg := need.Value(tokenizer.TrainBPE(slices.Values(texts), opts))(t)
			require.Len(t, cfg.Tokens, 1000)
			require.Equal(t, opts.Special, cfg.Tokens[997:])

			reversed := slices.Clone(texts)
			slices.Reverse(reversed)
			again := need.Value(tokenizer.TrainBPE(slices.Values(reversed), opts))(t)
			require.Equal(t, cfg, again, "the order of the texts must not matter")

			tok := mustNew(t, cfg)
			require.Equal(t, tokenizer.ID(997), tok.BOS())
			require.Equal(t, tokenizer.ID(999), tok.EOS())
			ids := tok.Encode(corpus, special)
			require.Equal(t, tok.BOS(), ids[0])
			require.Equal(t, corpus, tok.Decode(ids, exact))
			require.Less(t, len(ids), len(corpus)/2, "common words are tokens")
			for b := range 256 {
				text := string([]byte{byte(b)})
				if b < 128 {
					require.Len(t, tok.Encode(text, plain), 1, "byte %d", b)
				}
			}

			same := need.Value(tokenizer.FromMetadata(tok.KeyValues()))(t)
			require.Equal(t, tok.Config(), same.Config())
			require.Equal(t, ids, same.Encode(corpus, special))
		})
	}
}

func TestTrainKeepsSpecialsApart(t *testing.T) {
	text := strings.Repeat("one<|endoftext|>two", 50)
	cfg := need.Value(tokenizer.TrainBPE(slices.Values([]string{text}), tokenizer.TrainOptions{VocabSize: 400}))(t)
	for _, m := range cfg.Merges {
		require.NotContains(t, m, "|")
	}
	require.Contains(t, cfg.Tokens, "two")
	mustNew(t, cfg)
}

func TestTrainRejects(t *testing.T) {
	for want, opts := range map[string]tokenizer.TrainOptions{
		"at least 257":               {VocabSize: 256},
		`"nope" is not supported`:    {VocabSize: 300, Pre: "nope"},
		`"gemma4" is for vocabular`:  {VocabSize: 300, Pre: "gemma4"},
		`special token 1 is "a"`:     {VocabSize: 300, Special: []string{"<x>", "a"}},
		`special token 1 is "<x>"`:   {VocabSize: 300, Special: []string{"<x>", "<x>"}},
		`special token 0 is ""`:      {VocabSize: 300, Special: []string{""}},
		`"<y>" should be BOS or EOS`: {VocabSize: 300, EOS: "<y>"},
		"MinCount is -1":             {VocabSize: 300, MinCount: -1},
		"texts to train on are empt": {VocabSize: 300, MinCount: 7},
	} {
		var texts []string
		if opts.MinCount < 7 {
			texts = []string{"text"}
		}
		_, err := tokenizer.TrainBPE(slices.Values(texts), opts)
		require.ErrorContains(t, err, want)
	}
}

// TestTrainLongWords would not end if every merge looked at all of a text
// without spaces.
func TestTrainLongWords(t *testing.T) {
	letters := []byte(strings.Repeat("x", 300_000))
	state := uint32(7)
	for i := range letters {
		state = state*1664525 + 1013904223
		letters[i] = 'a' + byte(state>>24)%16
	}
	start := time.Now()
	cfg := need.Value(tokenizer.TrainBPE(slices.Values([]string{string(letters), strings.Repeat("a", 300_000)}), tokenizer.TrainOptions{VocabSize: 2000}))(t)
	require.Len(t, cfg.Tokens, 2000)
	require.Less(t, time.Since(start), 30*time.Second)
}

func BenchmarkTrain(b *testing.B) {
	text := benchText(3 << 20)
	for _, size := range []int{2000, 8000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := tokenizer.TrainBPE(slices.Values([]string{text}), tokenizer.TrainOptions{VocabSize: size}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
