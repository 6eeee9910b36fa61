package meter

import "encoding/binary"

func appendU32(b []byte, v uint32) []byte { return binary.AppendUvarint(b, uint64(v)) }

func appendSigned(b []byte, v int64) []byte {
	for {
		low := byte(v & 0x7f)
		v >>= 7
		if v == 0 && low&0x40 == 0 || v == -1 && low&0x40 != 0 {
			return append(b, low)
		}
		b = append(b, low|0x80)
	}
}

func appendName(b []byte, s string) []byte { return append(appendU32(b, uint32(len(s))), s...) }

func appendBytes(b, data []byte) []byte { return append(appendU32(b, uint32(len(data))), data...) }

func appendSection(b []byte, id byte, content []byte) []byte {
	return appendBytes(append(b, id), content)
}

func appendLimits(b []byte, l limits) []byte {
	if !l.hasMax {
		return appendU32(append(b, 0), l.min)
	}
	return appendU32(appendU32(append(b, 1), l.min), l.max)
}
