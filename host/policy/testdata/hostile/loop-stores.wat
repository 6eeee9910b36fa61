;; Writes all memory over and over.
;; ends: fuel
(module
  (memory (export "memory") 1)
  (func (export "flynn_abi") (result i32) (i32.const 0x10000))
  (func (export "flynn_buffer") (param $size i32) (result i32)
    (select (i32.const 4096) (i32.const 0) (i32.le_u (local.get $size) (i32.const 60000))))
  (func (export "flynn_route") (param $size i32) (result i64) (local $at i32)
    (loop
      (i64.store (i32.and (local.get $at) (i32.const 0xfff8)) (i64.const -1))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br 0))
    (i64.const 0)))
