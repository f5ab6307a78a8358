package main

import (
	"crypto/sha256"
	"encoding/binary"
	"sort"
	"strings"
)

const (
	blockSeparator    = "\n\n"
	documentSeparator = "\n\n\n"
)

// document is one unit of text. Sampling may cut it after any block, the
// held-out split never does.
type document struct {
	pkg    string   // import path of the package it comes from
	name   string   // unique, such as prose/net/http
	blocks []string // paragraphs or top-level declarations, without newlines at the ends
	header int      // leading blocks that are worth nothing alone, such as a package clause
}

// size is what the document adds to an output file, in bytes.
func (d document) size() int {
	n := len(documentSeparator) - len(blockSeparator)
	for _, b := range d.blocks {
		n += len(b) + len(blockSeparator)
	}
	return n
}

// rank is a number that depends on the document's name only, uniform in
// [0, 1): it makes choices that no other document can influence.
func (d document) rank() float64 {
	sum := sha256.Sum256([]byte(d.name))
	return float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
}

// join renders documents as the text of a file, in the order of their ranks:
// any stretch of it is then a mix of packages.
func join(docs []document) []byte {
	docs = byRank(docs)
	texts := make([]string, len(docs))
	for i, d := range docs {
		texts[i] = strings.Join(d.blocks, blockSeparator)
	}
	return []byte(strings.Join(texts, documentSeparator) + "\n")
}

func byRank(docs []document) []document {
	docs = append([]document(nil), docs...)
	sort.Slice(docs, func(i, j int) bool { return docs[i].rank() < docs[j].rank() })
	return docs
}

// dropRepeats removes blocks that occurred before, anywhere, so that no text
// is both trained on and held out. Header blocks stay. A document that is left
// with its header only goes.
func dropRepeats(docs []document) []document {
	seen := make(map[string]bool)
	var kept []document
	for _, d := range docs {
		fresh := append([]string(nil), d.blocks[:d.header]...)
		for _, b := range d.blocks[d.header:] {
			if !seen[b] {
				seen[b] = true
				fresh = append(fresh, b)
			}
		}
		if len(fresh) > d.header {
			d.blocks = fresh
			kept = append(kept, d)
		}
	}
	return kept
}

// split holds out about the given share of the documents.
func split(docs []document, fraction float64) (train, held []document) {
	for _, d := range docs {
		if d.rank() < fraction {
			held = append(held, d)
		} else {
			train = append(train, d)
		}
	}
	return train, held
}

// sample keeps at most limit bytes. Small packages stay whole and the large
// ones are cut to a common size, so that every package is heard.
func sample(docs []document, limit int) []document {
	byPackage := make(map[string][]document)
	sizes := make(map[string]int)
	for _, d := range byRank(docs) {
		byPackage[d.pkg] = append(byPackage[d.pkg], d)
		sizes[d.pkg] += d.size()
	}
	share := commonLimit(sizes, limit)
	var kept []document
	for _, group := range byPackage {
		kept = append(kept, take(group, share)...)
	}
	return byRank(kept)
}

// commonLimit is the largest n for which the sum of min(size, n) is within
// limit.
func commonLimit(sizes map[string]int, limit int) int {
	sorted := make([]int, 0, len(sizes))
	for _, n := range sizes {
		sorted = append(sorted, n)
	}
	sort.Ints(sorted)
	for i, n := range sorted {
		equal := limit / (len(sorted) - i)
		if n > equal {
			return equal
		}
		limit -= n
	}
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)-1]
}

// take keeps documents from the front, the last one cut after a block, within
// limit bytes. A document whose first blocks do not fit is passed over.
func take(docs []document, limit int) []document {
	var kept []document
	for _, d := range docs {
		d.blocks = fitting(d, limit)
		if len(d.blocks) <= d.header {
			continue
		}
		limit -= d.size()
		kept = append(kept, d)
	}
	return kept
}

// fitting is the longest prefix of the document's blocks within limit bytes.
func fitting(d document, limit int) []string {
	for n := len(d.blocks); n > d.header; n-- {
		if (document{blocks: d.blocks[:n]}).size() <= limit {
			return d.blocks[:n]
		}
	}
	return nil
}
