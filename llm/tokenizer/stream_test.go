package tokenizer

import (
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml/internal/test/need"
)

// sized returns t with other memory limits.
func (t *Tokenizer) sized(s sizes) *Tokenizer {
	u := *t
	u.sizes, u.idle = s, &idleStreams{}
	return &u
}

// atOnce holds all text in memory, and merges words as a whole.
var atOnce = sizes{window: math.MaxInt32, longWord: math.MaxInt32, wordWindow: math.MaxInt32, cache: math.MaxInt32}

// small has the smallest memory limits.
func small() *rapid.Generator[sizes] {
	return rapid.Custom(func(t *rapid.T) sizes {
		return sizes{
			window:     rapid.IntRange(1, 40).Draw(t, "window"),
			longWord:   rapid.IntRange(1, 40).Draw(t, "longWord"),
			wordWindow: rapid.IntRange(1, 40).Draw(t, "wordWindow"),
			cache:      rapid.IntRange(1, 4).Draw(t, "cache"),
		}
	})
}

// runs generates strings with long runs of the characters of patterns and special tokens.
func runs() *rapid.Generator[string] {
	bit := rapid.OneOf(
		rapid.SampledFrom([]string{" ", "\n", "\r\n", "\t", "\u3000", "\u0085", "'", "'s", "'LL", "a", "the", "Zé", "1", "123", "٣", "٣12",
			".", "!", "$", "`", "\u0301", "\u200d", "日", "😀", "\x00", "\xff", "\xe2\x96", "\xed\xa0\x80", "▁",
			"<s>", "</s>", "<|im_end|>", "<|im_", "<", "<0x41>", "<|plamo:", "<|plamo:bb|>", "|>", "\ue000", boundary}),
		rapid.StringN(1, 3, 8))
	run := rapid.Custom(func(t *rapid.T) string {
		return strings.Repeat(bit.Draw(t, "bit"), rapid.OneOf(rapid.Just(1), rapid.IntRange(1, 60)).Draw(t, "times"))
	})
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(run, 0, 12).Draw(t, "runs"), "")
	})
}

func encodeReader(t require.TestingT, tok *Tokenizer, r io.Reader, o EncodeOptions) []ID {
	ids := []ID{}
	for some, err := range tok.EncodeReader(r, o) {
		require.NoError(t, err)
		ids = append(ids, some...)
	}
	return ids
}

// characters is a vocabulary of characters, with the pieces of spm.
func characters(t testing.TB) *Tokenizer {
	pieces := vocabulary(t, "spm", "").Config()
	cfg := need.Value(DefaultConfig(ModelGemma4, ""))(t)
	cfg.Tokens, cfg.Types, cfg.BOS = append(pieces.Tokens, "\n", "\n\n"), append(pieces.Types, Normal, Normal), 1
	for i, text := range pieces.Tokens {
		for at := range text {
			left, right := text[:at], text[at:]
			if pieces.Types[i] == Normal && slices.Contains(pieces.Tokens, left) && slices.Contains(pieces.Tokens, right) {
				cfg.Merges = append(cfg.Merges, left+" "+right)
			}
		}
	}
	return need.Value(New(cfg))(t)
}

// scored is a vocabulary of PLaMo 3, with the pieces of spm.
func scored(t testing.TB) *Tokenizer {
	pieces := vocabulary(t, "spm", "").Config()
	cfg := need.Value(DefaultConfig(ModelPLaMo3, ""))(t)
	cfg.Tokens, cfg.Types, cfg.Padding = pieces.Tokens, pieces.Types, None
	for i, text := range cfg.Tokens {
		cfg.Tokens[i] = strings.ReplaceAll(text, space, " ")
		cfg.Scores = append(cfg.Scores, -float32(i*i%7))
	}
	return need.Value(New(cfg))(t)
}

// userDefined is a vocabulary whose special tokens overlap with each other and
// with white space, which one of them strips.
func userDefined(t testing.TB) *Tokenizer {
	cfg := vocabulary(t, "spm", "").Config()
	for i, text := range []string{"aa", "aaa", "ab", "\n\n", " <s>", "\t\t\t\t"} {
		cfg.Tokens[300+i] = text
		cfg.Types[300+i] = UserDefined
	}
	cfg.StripRight = []ID{1, 302}
	return need.Value(New(cfg))(t)
}

func TestWindowsAreTheText(t *testing.T) {
	all := map[string]*Tokenizer{"spm": vocabulary(t, "spm", ""), "spm2": vocabulary(t, "spm2", ""), "user-defined": userDefined(t),
		"characters": characters(t), "scored": scored(t)}
	for pre := range splitRegexes {
		all[pre] = vocabulary(t, "bpe", pre)
	}
	for name, tok := range all {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				text := runs().Draw(rt, "text")
				o := EncodeOptions{AddSpecial: rapid.Bool().Draw(rt, "AddSpecial"), ParseSpecial: rapid.Bool().Draw(rt, "ParseSpecial")}
				little := tok.sized(small().Draw(rt, "sizes"))
				want := tok.sized(atOnce).Encode(text, o)
				require.Equal(rt, want, little.Encode(text, o), "%q", text)
				require.Equal(rt, want, encodeReader(rt, little, iotest.HalfReader(strings.NewReader(text)), o), "%q", text)

				segments := []Segment{{text[:len(text)/2], o.ParseSpecial}, {text[len(text)/2:], !o.ParseSpecial}}
				ids, ends := tok.sized(atOnce).EncodeSegments(segments, o)
				littleIDs, littleEnds := little.EncodeSegments(segments, o)
				require.Equal(rt, ids, littleIDs)
				require.Equal(rt, ends, littleEnds)
			})
		})
	}
}

// A word is the same wherever splitting starts and however the text continues.
func TestSplitIsLocal(t *testing.T) {
	for pre := range splitRegexes {
		t.Run(pre, func(t *testing.T) {
			b := &bpe{rule: preRules[pre]}
			split := func(text string) (words []string) {
				b.split(text, func(word string) { words = append(words, word) })
				return words
			}
			rapid.Check(t, func(rt *rapid.T) {
				text := sanitize(runs().Draw(rt, "text"))
				words := split(text)
				from := 0
				for i := range words {
					require.Equal(rt, words[i:], split(text[from:]))
					from += len(words[i])
				}
				cut := rapid.IntRange(0, len(text)).Draw(rt, "cut")
				cut -= cutCharLen(text[:cut])
				settled := b.settled(text[:cut])
				end := 0
				for i, word := range split(text[:cut]) {
					if end += len(word); end >= settled {
						break
					}
					require.Equal(rt, words[i], word)
				}
			})
		})
	}
}

// mergeRules generates BPE vocabularies of two or three letters, in which tokens
// have many ways to be merged, in an order that need not make sense.
func mergeRules() *rapid.Generator[Config] {
	return rapid.Custom(func(t *rapid.T) Config {
		cfg, err := DefaultConfig(ModelBPE, "gpt-2")
		if err != nil {
			panic(err)
		}
		cfg.BOS, cfg.EOS = None, None
		cfg.Tokens = []string{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(t, "letters")]
		for range rapid.IntRange(1, 14).Draw(t, "merges") {
			pick := rapid.SampledFrom(cfg.Tokens)
			left, right := pick.Draw(t, "left"), pick.Draw(t, "right")
			cfg.Merges = append(cfg.Merges, left+" "+right)
			if !slices.Contains(cfg.Tokens, left+right) {
				cfg.Tokens = append(cfg.Tokens, left+right)
			}
		}
		cfg.Merges = rapid.Permutation(cfg.Merges).Draw(t, "order")
		return cfg
	})
}

// pieces generates SPM vocabularies of the same kind, with equal scores.
func pieces() *rapid.Generator[Config] {
	piece := rapid.StringMatching(`[ab▁]{1,6}|é?[ab]{1,3}é?`)
	return rapid.Custom(func(t *rapid.T) Config {
		cfg, err := DefaultConfig(ModelSPM, "")
		if err != nil {
			panic(err)
		}
		cfg.Tokens = append([]string{"<unk>", "<s>", "</s>"}, rapid.SliceOfNDistinct(piece, 1, 20, rapid.ID).Draw(t, "pieces")...)
		for range cfg.Tokens {
			cfg.Scores = append(cfg.Scores, rapid.SampledFrom([]float32{0, 0, -1, -2, -3}).Draw(t, "score"))
		}
		return cfg
	})
}

func TestLongWords(t *testing.T) {
	for name, configs := range map[string]*rapid.Generator[Config]{"bpe": mergeRules(), "spm": pieces()} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				tok := need.Value(New(configs.Draw(rt, "config")))(rt)
				letters := rapid.StringOfN(rapid.RuneFrom([]rune("abcé")), 0, 40, -1)
				text := strings.Repeat(letters.Draw(rt, "often"), rapid.IntRange(1, 12).Draw(rt, "times")) + letters.Draw(rt, "end")
				o := EncodeOptions{}
				want := tok.sized(atOnce).Encode(text, o)
				little := tok.sized(small().Draw(rt, "sizes"))
				require.Equal(rt, want, little.Encode(text, o), "%q", text)
			})
		})
	}
}

// The lemmas that windows of long words rest on, see longWord.
func TestPairsDecide(t *testing.T) {
	for name, configs := range map[string]*rapid.Generator[Config]{"bpe": mergeRules(), "spm": pieces()} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				tok := need.Value(New(configs.Draw(rt, "config")))(rt)
				m := tok.model.newMerger()
				merge := func(text string) (parts []string) {
					for _, s := range m.merge(text) {
						parts = append(parts, text[:s.size])
						text = text[s.size:]
					}
					return parts
				}
				letters := rapid.StringOfN(rapid.RuneFrom([]rune("abcé")), 1, 40, -1)
				x, y := merge(letters.Draw(rt, "x")), merge(letters.Draw(rt, "y"))
				pair := []string{x[len(x)-1], y[0]}
				apart := slices.Equal(merge(strings.Join(pair, "")), pair)
				together := slices.Equal(merge(strings.Join(slices.Concat(x, y), "")), slices.Concat(x, y))
				require.Equal(rt, apart, together, "%q %q", x, y)
			})
		})
	}
}

func TestEncodeReaderErrors(t *testing.T) {
	tok := vocabulary(t, "bpe", "gpt-2").sized(sizes{window: 8, longWord: 8, wordWindow: 8, cache: 8})
	broken := errors.New("broken disk")
	text := strings.Repeat("some words ", 9)
	var got []ID
	var failed error
	for ids, err := range tok.EncodeReader(io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken)), EncodeOptions{}) {
		got = append(got, ids...)
		failed = err
	}
	require.ErrorIs(t, failed, broken)
	require.NotEmpty(t, got)
	require.Equal(t, tok.Encode(text, EncodeOptions{})[:len(got)], got)

	for range tok.EncodeReader(strings.NewReader(text), EncodeOptions{}) {
		break // a caller may stop early
	}
	require.Empty(t, encodeReader(t, tok, strings.NewReader(""), EncodeOptions{}))
}

func FuzzWindows(f *testing.F) {
	f.Add("aaaa  \n\n'sé<s> \xff1234", uint8(3), uint8(5), uint8(7))
	all := []*Tokenizer{userDefined(f), characters(f), scored(f)}
	for pre := range splitRegexes {
		all = append(all, vocabulary(f, "bpe", pre))
	}
	f.Fuzz(func(t *testing.T, text string, window, long, word uint8) {
		text = strings.Repeat(text, 1+int(window)%7)
		o := EncodeOptions{AddSpecial: true, ParseSpecial: long%2 == 0}
		for _, tok := range all {
			little := tok.sized(sizes{window: 1 + int(window), longWord: 1 + int(long), wordWindow: 1 + int(word), cache: 2})
			require.Equal(t, tok.sized(atOnce).Encode(text, o), encodeReader(t, little, strings.NewReader(text), o))
		}
	})
}

// Cached words do not change a text's tokens or their ends.
func TestEncodingRemembersWordsAlone(t *testing.T) {
	for name, tok := range map[string]*Tokenizer{"bpe": vocabulary(t, "bpe", "llama-bpe"), "spm": vocabulary(t, "spm", "")} {
		t.Run(name, func(t *testing.T) {
			texts := []string{"one two\xff", "two one", " one", "", "<s>one two</s> ", strings.Repeat("one two ", 20000), "\xe6\x97", "one"}
			for i := range 3 * len(texts) {
				text := texts[i*i%len(texts)]
				fresh := tok.sized(defaultSizes)
				require.Equal(t, fresh.Encode(text, EncodeOptions{ParseSpecial: true}), tok.Encode(text, EncodeOptions{ParseSpecial: true}), "%.20q", text)
				segments := []Segment{{Text: text, ParseSpecial: true}, {Text: text}}
				wantIDs, wantEnds := tok.sized(defaultSizes).EncodeSegments(segments, EncodeOptions{})
				ids, ends := tok.EncodeSegments(segments, EncodeOptions{})
				require.Equal(t, wantIDs, ids, "%.20q", text)
				require.Equal(t, wantEnds, ends, "%.20q", text)
			}
		})
	}
}

// A reader that returns nothing for ever gives an error.
func TestEncodeReaderThatGivesNothing(t *testing.T) {
	tok := vocabulary(t, "bpe", "gpt-2")
	for r, want := range map[io.Reader]error{silent{}: io.ErrNoProgress, iotest.DataErrReader(strings.NewReader("")): nil} {
		var last error
		for _, err := range tok.EncodeReader(r, EncodeOptions{}) {
			last = err
		}
		require.Equal(t, want, last)
	}
	for _, err := range tok.EncodeReader(nil, EncodeOptions{}) {
		require.EqualError(t, err, "the reader is nil")
	}
}

type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, nil }
