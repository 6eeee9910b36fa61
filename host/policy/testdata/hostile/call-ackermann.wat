;; Ackermann's function: deep and long in turns.
;; ends: fuel
(module
  (memory (export "memory") 1)
  (func (export "flynn_abi") (result i32) (i32.const 0x10000))
  (func (export "flynn_buffer") (param $size i32) (result i32)
    (select (i32.const 4096) (i32.const 0) (i32.le_u (local.get $size) (i32.const 60000))))
  (func $a (param $m i32) (param $n i32) (result i32)
    (if (result i32) (i32.eqz (local.get $m))
      (then (i32.add (local.get $n) (i32.const 1)))
      (else (if (result i32) (i32.eqz (local.get $n))
        (then (call $a (i32.sub (local.get $m) (i32.const 1)) (i32.const 1)))
        (else (call $a (i32.sub (local.get $m) (i32.const 1)) (call $a (local.get $m) (i32.sub (local.get $n) (i32.const 1)))))))))
  (func (export "flynn_route") (param $size i32) (result i64)
    (i64.extend_i32_u (call $a (i32.const 4) (i32.const 3)))))
