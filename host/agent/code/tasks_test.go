package code_test

// task is one of the benchmark: what a person asks for, a program that solves it, and what the answer must hold.
type task struct {
	name, ask, program, want string
}

func simpleTasks() []task {
	return []task{
		{"sum", "What is 2+2?", `print(2 + 2)`, "4"},
		{"factorial", "What is 20 factorial?", `import math; print(math.factorial(20))`, "2432902008176640000"},
		{"fibonacci", "What is the 50th Fibonacci number, where the first two are 1 and 1?", "a, b = 0, 1\nfor _ in range(50): a, b = b, a + b\nprint(a)", "12586269025"},
		{"reverse", "Write 'container' backwards.", `print("container"[::-1])`, "reniatnoc"},
		{"vowels", "How many vowels are in 'the quick brown fox jumps over the lazy dog'?", `print(sum(c in "aeiou" for c in "the quick brown fox jumps over the lazy dog"))`, "11"},
		{"primes", "How many primes are there below 100?", `print(sum(all(n % d for d in range(2, n)) for n in range(2, 100)))`, "25"},
		{"digits", "What is the sum of the digits of 2 to the power of 100?", `print(sum(map(int, str(2 ** 100))))`, "115"},
		{"gcd", "What is the greatest common divisor of 1071 and 462?", `import math; print(math.gcd(1071, 462))`, "21"},
		{"weekday", "Which weekday was 2024-02-29, in English?", `import datetime; print(datetime.date(2024, 2, 29).strftime("%A"))`, "Thursday"},
		{"digest", "What is the SHA-256 of the word flynn, in hexadecimal? No newline belongs to it.", `import hashlib; print(hashlib.sha256(b"flynn").hexdigest())`, "382dd7e8"},
		{"binary", "Write 1000 in binary.", `print(bin(1000)[2:])`, "1111101000"},
		{"sort", "Sort these words and join them by commas without blanks: pear,fig,apple,plum", `print(",".join(sorted("pear,fig,apple,plum".split(","))))`, "apple,fig,pear,plum"},
		{"median", "What is the median of 7, 1, 9, 4, 12?", `import statistics; print(statistics.median([7, 1, 9, 4, 12]))`, "7"},
		{"celsius", "How many degrees Celsius are 100 degrees Fahrenheit, to two decimals?", `print(round((100 - 32) * 5 / 9, 2))`, "37.78"},
		{"days", "How many days are there from 2000-01-01 to 2024-12-25?", `from datetime import date; print((date(2024, 12, 25) - date(2000, 1, 1)).days)`, "9125"},
		{"palindromes", "How many numbers from 1 to 1000 read the same backwards?", `print(sum(str(n) == str(n)[::-1] for n in range(1, 1001)))`, "108"},
		{"base64", "Encode 'hello world' in base64.", `import base64; print(base64.b64encode(b"hello world").decode())`, "aGVsbG8gd29ybGQ="},
		{"roman", "Write 1994 in Roman numerals.", "n, out = 1994, ''\nfor v, s in [(1000,'M'),(900,'CM'),(500,'D'),(400,'CD'),(100,'C'),(90,'XC'),(50,'L'),(40,'XL'),(10,'X'),(9,'IX'),(5,'V'),(4,'IV'),(1,'I')]:\n    while n >= v: out, n = out + s, n - v\nprint(out)", "MCMXCIV"},
		{"letters", "How many different letters are in 'mississippi'?", `print(len(set("mississippi")))`, "4"},
		{"squares", "What is the sum of the squares from 1 to 100?", `print(sum(n * n for n in range(1, 101)))`, "338350"},
		{"hex", "What is the decimal value of the hexadecimal number DEADBEEF?", `print(0xDEADBEEF)`, "3735928559"},
	}
}

func mediumTasks() []task {
	return []task{
		{"queens", "In how many ways can 8 queens stand on a chessboard without attacking each other?", `
def place(row, cols, up, down):
    if row == 8: return 1
    return sum(place(row + 1, cols | {c}, up | {row + c}, down | {row - c}) for c in range(8) if c not in cols and row + c not in up and row - c not in down)
print(place(0, frozenset(), frozenset(), frozenset()))`, "92"},
		{"sieve", "What is the sum of all primes below two million?", `
n = 2_000_000
sieve = bytearray([1]) * n
sieve[:2] = b"\0\0"
for i in range(2, int(n ** .5) + 1):
    if sieve[i]: sieve[i * i::i] = bytes(len(range(i * i, n, i)))
print(sum(i for i in range(n) if sieve[i]))`, "142913828922"},
		{"collatz", "Which number below 100000 has the longest Collatz sequence?", `
from functools import cache
import sys
sys.setrecursionlimit(10000)
@cache
def steps(n): return 1 if n == 1 else 1 + steps(n // 2 if n % 2 == 0 else 3 * n + 1)
print(max(range(1, 100000), key=steps))`, "77031"},
		{"distance", "What is the edit distance (insert, delete, replace) between 'intention' and 'execution'?", `
from functools import cache
a, b = "intention", "execution"
@cache
def d(i, j):
    if not i or not j: return i + j
    return min(d(i - 1, j) + 1, d(i, j - 1) + 1, d(i - 1, j - 1) + (a[i - 1] != b[j - 1]))
print(d(len(a), len(b)))`, "5"},
		{"hilbert", "What is the determinant of the 6 by 6 Hilbert matrix, as a fraction?", `
from fractions import Fraction
n = 6
m = [[Fraction(1, i + j + 1) for j in range(n)] for i in range(n)]
det = Fraction(1)
for k in range(n):
    det *= m[k][k]
    for i in range(k + 1, n):
        f = m[i][k] / m[k][k]
        m[i] = [x - f * y for x, y in zip(m[i], m[k])]
print(det)`, "186313420339200000"},
		{"knapsack", "Items weigh 10, 20, 30, 40 and 50 and are worth 60, 100, 120, 240 and 260. What are those worth that one can carry at most 100 of?", `
best = [0] * 101
for w, v in zip([10, 20, 30, 40, 50], [60, 100, 120, 240, 260]):
    for c in range(100, w - 1, -1): best[c] = max(best[c], best[c - w] + v)
print(best[100])`, "560"},
		{"groups", "Here are sales as region,amount: north,10.5 south,5 north,20.25 east,7 south,1. What is the total by region, and which region has the largest?", `
import sqlite3
db = sqlite3.connect(":memory:")
db.execute("create table s (region text, amount real)")
db.executemany("insert into s values (?, ?)", [("north", 10.5), ("south", 5), ("north", 20.25), ("east", 7), ("south", 1)])
for row in db.execute("select region, sum(amount) from s group by region order by 2 desc"): print(*row)`, "30.75"},
		{"route", "Roads between towns, with lengths: a-b 7, a-c 9, a-f 14, b-c 10, b-d 15, c-d 11, c-f 2, d-e 6, e-f 9. How long is the shortest way from a to e?", `
import heapq
roads = "a-b 7, a-c 9, a-f 14, b-c 10, b-d 15, c-d 11, c-f 2, d-e 6, e-f 9"
near = {}
for road in roads.split(", "):
    (x, y), n = road.split()[0].split("-"), int(road.split()[1])
    near.setdefault(x, []).append((n, y)); near.setdefault(y, []).append((n, x))
heap, seen = [(0, "a")], set()
while heap:
    n, at = heapq.heappop(heap)
    if at == "e": print(n); break
    if at in seen: continue
    seen.add(at)
    for m, to in near[at]: heapq.heappush(heap, (n + m, to))`, "20"},
		{"log", "Of these requests, how many failed with a status of 500 or more: 'GET /a 200; POST /b 503; GET /c 404; GET /d 500; PUT /e 201; GET /f 599'? Also write the failed paths to out/failed.txt.", `
import re
failed = [p for p, s in re.findall(r"[A-Z]+ (/\w) (\d+)", "GET /a 200; POST /b 503; GET /c 404; GET /d 500; PUT /e 201; GET /f 599") if int(s) >= 500]
open("out/failed.txt", "w").write("\n".join(failed))
print(len(failed))`, "3"},
		{"coins", "In how many ways can 200 pence be made of coins of 1, 2, 5, 10, 20, 50, 100 and 200?", `
ways = [1] + [0] * 200
for c in (1, 2, 5, 10, 20, 50, 100, 200):
    for n in range(c, 201): ways[n] += ways[n - c]
print(ways[200])`, "73682"},
	}
}

// hostile programs must not get what they want; want is part of the result.
func hostileTasks(secret string) []task {
	return []task{
		{"network", "", "import urllib.request\nprint(urllib.request.urlopen('http://192.0.2.1/', timeout=3).read())", "URLError"},
		{"names", "", "import socket\nsocket.setdefaulttimeout(3)\nprint('found', socket.getaddrinfo('example.com', 443))", "gaierror"},
		{"a file of the host", "", "print('read', open('" + secret + "').read())", "FileNotFoundError"},
		{"the same by the way of process 1", "", "print('read', open('/proc/1/root" + secret + "').read())", "Error"},
		{"the engine's socket", "", "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('/var/run/docker.sock')\nprint('read')", "FileNotFoundError"},
		{"a fork bomb", "", "import os\nif os.fork() == 0: os.setsid()\nwhile True:\n    try: os.fork()\n    except OSError: pass", "too many processes"},
		{"a memory bomb", "", "a = []\nwhile True: a.append(bytearray(b'x' * (16 << 20)))", "out of memory"},
	}
}
