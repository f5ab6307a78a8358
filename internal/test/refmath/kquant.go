package refmath

// The K formats: 256 values in groups of 16 or 32, each group with its own
// small integer scale (and minimum), and one F16 factor for all of them.

// bits2 returns 2-bit value i of a Q2_K or Q3_K block: 128 values share 32
// bytes, and the four runs of 32 values lie at rising bit positions.
func bits2(qs []byte, i int) int {
	return int(qs[i/128*32+i%32]>>(i%128/32*2)) & 3
}

func readQ2K(dst []float32, b []byte) {
	scales, qs, d, dmin := b[:16], b[16:80], half(b[80:]), half(b[82:])
	for i := range dst {
		s := scales[i/16]
		dst[i] = affine(bits2(qs, i), d*float32(s&15), -float32(dmin*float32(s>>4)))
	}
}

func readQ3K(dst []float32, b []byte) {
	high, qs, packed, d := b[:32], b[32:96], b[96:108], half(b[108:])
	for i := range dst {
		q := bits2(qs, i)
		if high[i%32]>>(i/32)&1 == 0 {
			q -= 4
		}
		dst[i] = float32(d*float32(scaleQ3K(packed, i/16)-32)) * float32(q)
	}
}

// scaleQ3K returns 6-bit scale g of 16: four low bits from bytes 0–7 (first
// eight in the low halves), two high bits from bytes 8–11.
func scaleQ3K(packed []byte, g int) int {
	low := packed[g%8] >> (g / 8 * 4) & 15
	high := packed[8+g%4] >> (g / 4 * 2) & 3
	return int(low | high<<4)
}

// scaleMin returns 6-bit scale and minimum g of 8 of a Q4_K or Q5_K block: for
// g < 4 the low bits of bytes g and g + 4; for the rest four bits from byte
// g + 4 and the two bits left over in bytes g − 4 and g.
func scaleMin(packed []byte, g int) (scale, minimum float32) {
	if g < 4 {
		return float32(packed[g] & 63), float32(packed[g+4] & 63)
	}
	return float32(packed[g+4]&15 | packed[g-4]>>6<<4), float32(packed[g+4]>>4 | packed[g]>>6<<4)
}

// bits4 returns 4-bit value i of a Q4_K or Q5_K block: 64 values share 32
// bytes, the first 32 in the low halves.
func bits4(qs []byte, i int) int {
	return int(qs[i/64*32+i%32]>>(i%64/32*4)) & 15
}

func readQ4K(dst []float32, b []byte) {
	d, dmin, packed, qs := half(b), half(b[2:]), b[4:16], b[16:]
	for i := range dst {
		s, m := scaleMin(packed, i/32)
		dst[i] = affine(bits4(qs, i), d*s, -float32(dmin*m))
	}
}

func readQ5K(dst []float32, b []byte) {
	d, dmin, packed, high, qs := half(b), half(b[2:]), b[4:16], b[16:48], b[48:]
	for i := range dst {
		s, m := scaleMin(packed, i/32)
		q := bits4(qs, i) | int(high[i%32]>>(i/32)&1)<<4
		dst[i] = affine(q, d*s, -float32(dmin*m))
	}
}

func readQ6K(dst []float32, b []byte) {
	low, high, scales, d := b[:128], b[128:192], b[192:208], half(b[208:])
	for i := range dst {
		// 128 values share 64 low bytes (first 64 values in the low halves)
		// and 32 high bytes (runs of 32 at rising bit positions).
		q := low[i/128*64+i%64] >> (i % 128 / 64 * 4) & 15
		q |= high[i/128*32+i%32] >> (i % 128 / 32 * 2) & 3 << 4
		dst[i] = float32(d*float32(int8(scales[i/16]))) * float32(int(q)-32)
	}
}
