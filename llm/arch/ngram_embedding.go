package arch

import (
	"fmt"
	"math"
	"reflect"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/state"
)

// NGramEmbedding adds embeddings of a token with those before it to all residual streams [n_embd·Streams, n]. Hashes of two
// tokens, three and so on choose rows of a large table. Each stream weighs the value that a matrix makes of the rows by how
// well it agrees with a key, and a short convolution over every Size-th token follows.
type NGramEmbedding struct {
	Streams int
	NGrams
}

// NGrams are the sizes of [NGramEmbedding].
type NGrams struct {
	Size       int // most tokens of a row
	Heads      int // rows for each number of tokens
	RowSize    int
	ConvLength int // taps of the convolution
}

// rows is the number of rows of a token.
func (n NGrams) rows() int64 { return int64((n.Size - 1) * n.Heads) }

// An NGramHash chooses rows of the table. The zero value is no table.
type NGramHash struct {
	Layers      []int    // those that add embeddings
	EOS         int      // stands for tokens before a text
	Image       int      // stands for images; 0: EOS
	Multipliers []uint64 // of a token, and of those before it
	Offsets     []uint64 // first row of each head
	Sizes       []uint64 // number of rows of each head
}

// String describes the part.
func (NGramEmbedding) String() string { return "embeddings of several tokens" }

// Forward returns what is added to the streams.
func (n NGramEmbedding) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	embd, streams, width := int64(p.config.Embd), int64(n.Streams), int64(n.RowSize)*n.rows()
	made := t.Linear(n.lookup(p, t, x.T.Dim(1)), p.Matrix("ple_key", width, streams*embd, streamMatrix), p.Matrix("ple_value", width, embd, streamMatrix))
	key, query := t.Heads(n.norm(p, t, "ple_norm_key", t.Contiguous(made[0])), streams), t.Heads(n.norm(p, t, "ple_norm_query", x), streams)
	const least = 1e-6
	gate := t.Sigmoid(t.SignedSqrt(t.Scale(t.Dots(key, query), float32(1/math.Sqrt(float64(embd)))), least)) // [1, streams, n]
	weighed := t.Flat(t.Mix(t.Columns(t.Contiguous(made[1])), gate))
	kernel := p.Weight(Weight{Kind: "ple_conv1d", Shape: []int64{int64(n.ConvLength), streams * embd}, Role: Kernel, AnyType: true})
	if kernel.Type() != ggml.F32 {
		kernel = t.C.Cast(kernel, ggml.F32)
	}
	return t.Add(weighed, p.convolve(t, n.norm(p, t, "ple_norm_conv", weighed), nn.Convolution{Kernel: kernel, Step: n.Size, SiLU: true}, 0))
}

// norm normalises each stream of x.
func (n NGramEmbedding) norm(p Place, t *nn.Tape, kind Kind, x *nn.Value) *nn.Value {
	of := p.normOf()
	of.Groups, of.Weight = n.Streams, p.Weight(Weight{Kind: kind, Shape: []int64{x.T.Dim(0)}, Role: Norm})
	return t.Norm(x, of)
}

// lookup returns the rows of n tokens, [rowSize·rows, n].
func (n NGramEmbedding) lookup(p Place, t *nn.Tape, tokens int64) *nn.Value {
	table := p.outside().matrixOf(Weight{Kind: layerEmbd, Shape: []int64{int64(n.RowSize), int64(p.config.NGramRows)}, Role: Embedding, NoLoRA: true})
	rows, h := n.rows(), p.config.NGramHash
	kept, _ := p.State(1).(*state.Tokens)
	name := "rows of several tokens"
	if kept != nil {
		name = fmt.Sprintf("rows of several tokens of %p", kept)
	}
	ids := nn.Declare(t.Inputs, name, ggml.I32, []int64{rows * tokens}, func(f *nn.Feed, x []int32) {
		earlier := func(i, back int) (int32, bool) { return f.Tokens[i-min(back, i)], int(f.Positions[i]) >= back }
		if kept != nil {
			kept.Begin(p.Pass, f)
			earlier = func(i, back int) (int32, bool) { return kept.Earlier(p.Pass, f, i, back) }
		}
		for i := range f.Tokens {
			h.choose(n.NGrams, x[i*int(rows):][:rows], func(back int) (int32, bool) { return earlier(i, back) })
		}
	})
	x := t.Embed(ids, table)
	return t.Flat(t.Unflatten(x, rows))
}

// choose returns the rows of a token. From an EOS on, and before the text, tokens count as EOS.
func (h NGramHash) choose(n NGrams, rows []int32, earlier func(back int) (int32, bool)) {
	var mixed uint64
	ended := false
	for back := range n.Size {
		token, ok := earlier(back)
		if ended = ended || !ok; ended {
			token = int32(h.EOS)
		}
		ended = ended || back > 0 && int(token) == h.EOS
		mixed ^= uint64(token) * h.Multipliers[back]
		for head := range n.Heads {
			if i := (back-1)*n.Heads + head; i >= 0 && back > 0 {
				rows[i] = int32(mixed%h.Sizes[i] + h.Offsets[i])
			}
		}
	}
}

// NewStates makes two states: the last inputs of the convolution, and the tokens.
func (n NGramEmbedding) NewStates(o state.Options) ([]state.State, error) {
	recent, err := state.NewRecent(o, n.Streams*int(n.RowSize)*int(n.rows()), (n.ConvLength-1)*n.Size)
	if err != nil {
		return nil, err
	}
	tokens, err := state.NewTokens(o)
	return []state.State{recent, tokens}, err
}

// Check reports sizes that are out of bounds, and lists that do not fit.
func (n NGramEmbedding) Check(c Config) []string {
	faults := c.sizeFaults([]sizeBound{{"ple.ngram_size", n.Size - 1, 7}, {"ple.heads_per_ngram", n.Heads, 64}, {"embedding_length_per_layer_input", n.RowSize, maxWidth}, {"ple.conv_kernel", n.ConvLength, 16}})
	if len(faults) > 0 {
		return faults
	}
	h, rows := c.NGramHash, int(n.rows())
	if n.RowSize*rows != c.Embd {
		return []string{fmt.Sprintf("%s is %d, but %d rows must have %d elements together", c.key("embedding_length_per_layer_input"), n.RowSize, rows, c.Embd)}
	}
	if len(h.Multipliers) < n.Size || len(h.Offsets) < rows || len(h.Sizes) < rows {
		return []string{fmt.Sprintf("%s.ple has %d multipliers, %d offsets and %d sizes; %d tokens and %d rows need as many", c.Arch, len(h.Multipliers), len(h.Offsets), len(h.Sizes), n.Size, rows)}
	}
	for i := range rows {
		if h.Sizes[i] == 0 || h.Sizes[i] > math.MaxInt32 || h.Offsets[i] > math.MaxInt32 || h.Offsets[i]+h.Sizes[i] > uint64(c.NGramRows) {
			faults = append(faults, fmt.Sprintf("%s.ple: head %d has %d rows from row %d on, but the table has %d", c.Arch, i, h.Sizes[i], h.Offsets[i], c.NGramRows))
		}
	}
	return faults
}

// ngramKeys are the keys of the sizes and of the hash, which files have if a layer has such embeddings.
var ngramKeys = []key{
	numbersKey("ple.layers", func(c *Config) *[]int { return &c.NGramHash.Layers }, true),
	ngramSize("ple.ngram_size", func(c *Config) *int { return &c.NGrams.Size }),
	ngramSize("ple.heads_per_ngram", func(c *Config) *int { return &c.NGrams.Heads }),
	ngramSize("ple.conv_kernel", func(c *Config) *int { return &c.NGrams.ConvLength }),
	ngramSize("ple.eos_token_id", func(c *Config) *int { return &c.NGramHash.EOS }),
	optional("ple.image_token_id", func(c *Config) *int { return &c.NGramHash.Image }, always(0)),
	ngramSize("embedding_length_per_layer_input", func(c *Config) *int { return &c.NGrams.RowSize }),
	numbersKey("ple.layer_multipliers", func(c *Config) *[]uint64 { return &c.NGramHash.Multipliers }, false),
	numbersKey("ple.head_offsets", func(c *Config) *[]uint64 { return &c.NGramHash.Offsets }, false),
	numbersKey("ple.head_vocab_sizes", func(c *Config) *[]uint64 { return &c.NGramHash.Sizes }, false),
	{read: ngramRows, write: func(*Config) any { return nil }},
}

// ngramSize is a number of files with such a layer.
func ngramSize(name string, field func(c *Config) *int) key {
	k := size(name, field)
	return key{
		name: name,
		read: func(m *metadata, name string, c *Config) {
			if len(c.NGramHash.Layers) > 0 {
				k.read(m, name, c)
			}
		},
		write: func(c *Config) any {
			if len(c.NGramHash.Layers) == 0 {
				return nil
			}
			return k.write(c)
		},
	}
}

// numbersKey is a list of whole numbers of any type; a file without the first of them has no such layer.
func numbersKey[T int | uint64](name string, field func(c *Config) *[]T, first bool) key {
	return key{
		name: name,
		read: func(m *metadata, name string, c *Config) {
			list, ok := m.list(m.arch + "." + name)
			if !ok {
				if !first && len(c.NGramHash.Layers) > 0 {
					m.fault("%s.%s is missing or no list", m.arch, name)
				}
				return
			}
			for i := range list.Len() {
				x := list.Index(i)
				if !x.CanInt() && !x.CanUint() {
					m.fault("%s.%s is not a list of whole numbers", m.arch, name)
					return
				}
				*field(c) = append(*field(c), x.Convert(reflect.TypeFor[T]()).Interface().(T))
			}
		},
		write: func(c *Config) any {
			if len(*field(c)) == 0 {
				return nil
			}
			if sizes, ok := any(*field(c)).([]int); ok {
				return numbers(sizes)
			}
			return *field(c)
		},
	}
}

// ngramRows takes the number of rows from the table, or from the last head where there is none yet.
func ngramRows(m *metadata, _ string, c *Config) {
	if h := c.NGramHash; len(h.Offsets) > 0 && len(h.Offsets) == len(h.Sizes) {
		c.NGramRows = int(min(h.Offsets[len(h.Offsets)-1]+h.Sizes[len(h.Sizes)-1], math.MaxInt32))
	}
	if table, ok := m.g.Tensor(layerEmbd + ".weight"); ok && len(table.Shape) > 1 {
		c.NGramRows = int(table.Shape[1])
	}
}
