package lora

import (
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
)

// A factors is the change B·A of rows of a matrix, in memory: A [rank][in], B [rows][rank], with rows in
// transformers' order. For the embedding, which is transposed, A is [rank][vocabulary] and B [n_embd][rank].
type factors struct {
	name  string // of the module, or of the matrix of the model
	rows  []arch.Rows
	rank  int
	a, b  []float32
	alpha float32 // not 0: the pair is scaled by alpha/rank
}

func (f *factors) strength() float64 { return float64(f.alpha) / float64(f.rank) }

// isEmbedding reports whether the rows are looked up.
func (f *factors) isEmbedding() bool { return f.rows[0].Name+".weight" == tokenEmbd }

// factorsByRows indexes the factors by the names of their rows.
func factorsByRows(list []factors) map[string]*factors {
	of := map[string]*factors{}
	for i := range list {
		for _, p := range list[i].rows {
			of[p.Name] = &list[i]
		}
	}
	return of
}

// regroup combines the factors of the rows in all into factors of one matrix, where one side fuses matrices that the
// other separates; nil if nothing changes them. Factors with the same A keep their rank. Others become blocks: the A
// stacked by rank, the B block-diagonal with zeros elsewhere.
func regroup(of map[string]*factors, name string, all []arch.Rows) *factors {
	var blocks []*factors // one per distinct A
	block := map[string]int{}
	for _, p := range all {
		f := of[p.Name]
		if f == nil {
			continue
		}
		i := slices.IndexFunc(blocks, f.sharesA)
		if i < 0 {
			i = len(blocks)
			blocks = append(blocks, f)
		}
		block[p.Name] = i
	}
	if len(blocks) == 0 {
		return nil
	}
	joined := &factors{name: name, rows: all, alpha: blocks[0].alpha}
	strongest, begin := blocks[0], make([]int, len(blocks))
	for i, f := range blocks {
		begin[i] = joined.rank
		joined.rank += f.rank
		joined.a = append(joined.a, f.a...)
		if f.strength() > strongest.strength() {
			strongest = f
		}
	}
	if joined.isEmbedding() {
		joined.b = blocks[0].b
		return joined
	}
	if len(blocks) > 1 {
		joined.alpha = float32(strongest.strength() * float64(joined.rank))
	}
	for _, p := range all {
		rows := make([]float32, int(p.Count)*joined.rank)
		if i, ok := block[p.Name]; ok {
			of[p.Name].copyRows(rows, joined.rank, begin[i], p, of[p.Name].strength()/strongest.strength())
		}
		joined.b = append(joined.b, rows...)
	}
	return joined
}

// sharesA reports whether two factors have the same A and differ in their rows only.
func (f *factors) sharesA(g *factors) bool {
	return f == g || f.rank == g.rank && f.alpha == g.alpha && slices.Equal(f.a, g.a)
}

// copyRows copies some rows of B, times a factor, into columns of wider rows.
func (f *factors) copyRows(dst []float32, width, column int, some arch.Rows, factor float64) {
	from := 0
	for _, p := range f.rows {
		if p.Name == some.Name {
			break
		}
		from += int(p.Count)
	}
	for row := range int(some.Count) {
		source := f.b[(from+row)*f.rank:][:f.rank]
		target := dst[row*width+column:][:f.rank]
		copy(target, source)
		if factor != 1 {
			for i := range target {
				target[i] = float32(float64(target[i]) * factor)
			}
		}
	}
}

// reorder converts the order of heads and of their rows from transformers' to the GGUF file's, or back.
func (f *factors) reorder(toFile bool) {
	if f.isEmbedding() {
		return // the rows have no heads
	}
	rotate := separate
	if toFile {
		rotate = interleave
	}
	begin := 0
	for _, p := range f.rows {
		rows := f.b[begin:][:int(p.Count)*f.rank]
		begin += len(rows)
		for i := range p.PermutedHeads {
			size := len(rows) / p.PermutedHeads
			rotate(rows[i*size:][:size], f.rank)
		}
		tile(rows, p.Tiled, toFile)
		for i := range f.rank {
			in := len(f.a) / f.rank
			tile(f.a[i*in:][:in], p.TiledInputs, toFile)
		}
	}
}

// tile reorders values of heads into the order of a GGUF file, or back.
func tile(values []float32, t arch.Tiling, toFile bool) {
	if t.Groups == 0 {
		return
	}
	size, old := len(values)/(t.Groups*t.Each), slices.Clone(values)
	for group := range t.Groups {
		for i := range t.Each {
			theirs, ours := (group*t.Each+i)*size, (i*t.Groups+group)*size
			if !toFile {
				theirs, ours = ours, theirs
			}
			copy(values[ours:][:size], old[theirs:][:size])
		}
	}
}

// interleave alternates the rows of both halves of a head (RoPE): neighbours in a GGUF file are half a head apart in
// transformers.
func interleave(rows []float32, rank int) {
	half := len(rows) / rank / 2
	old := slices.Clone(rows)
	for i := range half {
		copy(rows[2*i*rank:], old[i*rank:][:rank])
		copy(rows[(2*i+1)*rank:], old[(half+i)*rank:][:rank])
	}
}

// separate is the inverse of interleave.
func separate(rows []float32, rank int) {
	half := len(rows) / rank / 2
	old := slices.Clone(rows)
	for i := range half {
		copy(rows[i*rank:], old[2*i*rank:][:rank])
		copy(rows[(half+i)*rank:], old[(2*i+1)*rank:][:rank])
	}
}

// transpose converts [rows][columns] to [columns][rows].
func transpose(values []float32, rows, columns int) []float32 {
	transposed := make([]float32, len(values))
	for i := range rows {
		for j := range columns {
			transposed[j*rows+i] = values[i*columns+j]
		}
	}
	return transposed
}

// readFactors reads the pairs of an adapter.
func (a *Adapter) readFactors() ([]factors, error) {
	var list []factors
	for _, p := range a.pairs {
		f := factors{name: p.Base, rows: a.model.Weight(p.Base).Rows, rank: p.Rank(), alpha: a.alphaOf(p)}
		var err error
		if f.a, err = p.A.Float32s(); err != nil {
			return nil, err
		}
		if f.b, err = p.B.Float32s(); err != nil {
			return nil, err
		}
		if f.isEmbedding() {
			f.a = transpose(f.a, len(f.a)/f.rank, f.rank)
		}
		f.reorder(false)
		list = append(list, f)
	}
	return list, nil
}

// alphaOf returns the alpha of a pair; without alpha it returns the rank, which gives a factor of 1.
func (a *Adapter) alphaOf(p Pair) float32 {
	switch {
	case p.Alpha != 0:
		return p.Alpha
	case a.Alpha != 0:
		return a.Alpha
	}
	return float32(p.Rank())
}

// moduleFactors returns the factors of transformers' modules, in the order of the modules.
func moduleFactors(a *arch.Architecture, list []factors) []factors {
	of := factorsByRows(list)
	var found []factors
	for _, m := range a.Modules() {
		if f := regroup(of, m.Path, m.Rows); f != nil {
			found = append(found, *f)
		}
	}
	return found
}

// matrixFactors returns the factors of the model's matrices, in the order of the matrices.
func matrixFactors(a *arch.Architecture, list []factors) []factors {
	of := factorsByRows(list)
	var found []factors
	for _, w := range a.Weights() {
		if f := regroup(of, w.Name, w.Rows); f != nil {
			found = append(found, *f)
		}
	}
	return found
}

// spec describes the pair of a matrix [n_in, n_out].
func (f *factors) spec() spec {
	s := spec{base: f.name}
	rank := int64(f.rank)
	w := []int64{int64(len(f.a)) / rank, int64(len(f.b)) / rank}
	if f.isEmbedding() {
		slices.Reverse(w)
	}
	s.a, s.b = pairShapes(f.name, w, rank)
	return s
}

// write writes the factors into the tensors of a pair.
func (f *factors) write(p Pair) error {
	f.reorder(true)
	a := f.a
	if f.isEmbedding() {
		a = transpose(a, f.rank, len(a)/f.rank)
	}
	if err := ggml.Write(p.A, a); err != nil {
		return err
	}
	return ggml.Write(p.B, f.b)
}
