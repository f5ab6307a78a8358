package tokenizer

// ordered is an element of a queue.
type ordered[T any] interface{ before(T) bool }

var (
	_ ordered[rankedPair]  = rankedPair{}
	_ ordered[scoredPair]  = scoredPair{}
	_ ordered[countedPair] = countedPair{}
)

// A queue is a binary heap: pop returns the item that is before all others.
type queue[T ordered[T]] []T

func (q *queue[T]) push(x T) {
	h := append(*q, x)
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !x.before(h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = x
	*q = h
}

func (q *queue[T]) pop() T {
	h := *q
	top, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	*q = h
	if len(h) == 0 {
		return top
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].before(h[child]) {
			child++
		}
		if !h[child].before(last) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = last
	return top
}
