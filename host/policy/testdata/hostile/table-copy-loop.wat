;; Copies half a table over and over.
;; ends: fuel
(module
  (memory (export "memory") 1)
  (func (export "flynn_abi") (result i32) (i32.const 0x10000))
  (func (export "flynn_buffer") (param $size i32) (result i32)
    (select (i32.const 4096) (i32.const 0) (i32.le_u (local.get $size) (i32.const 60000))))
  (table 60000 funcref)
  (func (export "flynn_route") (param $size i32) (result i64)
    (loop (table.copy 0 0 (i32.const 0) (i32.const 30000) (i32.const 30000)) (br 0))
    (i64.const 0)))
